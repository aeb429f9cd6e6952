#include "tests/support/tokens_generator.h"

#include <algorithm>
#include <cmath>

#include "src/core/random.h"

namespace teller::testing_support {
namespace {

constexpr uint32_t kFirstFaultyEntry = 5;
constexpr int kNodesPerToken = 3;

/// What is wrong with one step, if anything.
struct Fault {
  int kind = -1;
  int rank = 0;
};

double UsualTime(uint32_t entry) { return 20'000.0 * (1 + entry % 7); }

class Generator {
 public:
  explicit Generator(const TokensOptions& options) : options_(options), random_(options.seed) {}

  dataset::TokensFile Make() {
    dataset::TokensFile run;
    run.run_id = options_.run_id;
    run.engine = "reference";
    run.mode = "structural";
    run.vocabulary_hash = "vocabulary-" + std::to_string(options_.vocabulary);
    run.vocabulary_size = options_.vocabulary;
    for (uint32_t entry = 0; entry < options_.vocabulary; ++entry) {
      run.symbols.push_back("operator_" + std::to_string(entry));
    }
    for (int rank = 0; rank < options_.ranks; ++rank) run.ranks.push_back(rank);
    run.number_names = {"step_time_ns", "batch_size"};
    run.localizer_names = {"score", "z1", "ratio1"};
    for (int step = 0; step < options_.steps; ++step) run.steps.push_back(MakeStep(step));
    return run;
  }

 private:
  dataset::StepTokens MakeStep(int number) {
    const bool calibration = number < options_.calibration_steps;
    Fault fault;
    if (!calibration && random_.Bernoulli(options_.positive_share)) {
      fault.kind =
          static_cast<int>(random_.UniformInt(0, static_cast<int64_t>(options_.kinds.size()) - 1));
      fault.rank = static_cast<int>(random_.UniformInt(0, options_.ranks - 1));
    }
    dataset::StepTokens step;
    step.engine_step = number;
    for (int rank = 0; rank < options_.ranks; ++rank) AddRank(rank, fault, step);
    Finish(calibration, fault, step);
    return step;
  }

  bool WholeRank(const Fault& fault) const {
    return fault.kind >= 0 &&
           options_.kinds[static_cast<std::size_t>(fault.kind)] == "process_pause";
  }

  void AddRank(int rank, const Fault& fault, dataset::StepTokens& step) {
    const auto root = static_cast<int32_t>(step.tokens.size());
    for (int i = 0; i < options_.tokens_per_rank; ++i) {
      const auto entry = static_cast<uint32_t>(i) % options_.vocabulary;
      const bool named = fault.kind >= 0 && !WholeRank(fault) &&
                         entry == kFirstFaultyEntry + static_cast<uint32_t>(fault.kind);
      const bool slow = fault.kind >= 0 && rank == fault.rank && (named || WholeRank(fault));
      AddToken(entry, rank, i == 0 ? -1 : root, slow ? options_.slowdown : 1.0, slow && named,
               step);
    }
  }

  void AddToken(uint32_t entry, int rank, int32_t parent, double factor, bool hit,
                dataset::StepTokens& step) {
    const double time =
        UsualTime(entry) * options_.run_factor * factor * std::exp(0.1 * random_.Normal());
    dataset::StepToken token;
    token.id = entry;
    token.rank = static_cast<uint16_t>(rank);
    token.track = static_cast<uint16_t>(rank);
    token.layer = static_cast<uint8_t>(entry % 5);
    token.depth = parent < 0 ? 0 : 1;
    token.parent_token = parent;
    token.first_node = static_cast<uint32_t>(step.nodes.size());
    token.node_count = kNodesPerToken;
    token.host_ns = static_cast<int64_t>(time);
    token.root_ns = token.host_ns;
    for (int n = 0; n < kNodesPerToken; ++n) {
      const bool culprit = n == 1;
      dataset::TokenNode node;
      node.node = NodeId{static_cast<int32_t>(step.nodes.size())};
      node.symbol = SymbolId{culprit ? entry : 0};
      node.rank = token.rank;
      node.residual =
          static_cast<float>(culprit && hit ? 5 * std::log(factor) : 0.3 * random_.Normal());
      node.log_duration = static_cast<float>(std::log1p(time / (culprit ? 1.0 : 4.0)));
      if (culprit && hit) step.label.hit_nodes.push_back(node.node);
      token.residual = std::max(token.residual, node.residual);
      step.nodes.push_back(node);
    }
    step.tokens.push_back(token);
  }

  void Finish(bool calibration, const Fault& fault, dataset::StepTokens& step) {
    double time = 0, residual = 0;
    for (const auto& token : step.tokens) {
      time += static_cast<double>(token.host_ns);
      residual = std::max(residual, static_cast<double>(token.residual));
    }
    step.numbers = {static_cast<float>(time), static_cast<float>(random_.UniformInt(1, 8))};
    step.localizer = {static_cast<float>(residual), static_cast<float>(residual), 0.0f};
    step.forest_nodes = step.forest_atoms = step.slice_nodes =
        static_cast<uint32_t>(step.nodes.size());
    step.forest_tokens = static_cast<uint32_t>(step.tokens.size());
    step.decodes = step.times_add_up = 1;
    if (calibration) step.label.reasons = dataset::kReasonCalibration;
    if (random_.Bernoulli(0.3)) AddLog(fault, step);
    if (fault.kind < 0) return;
    step.label.status = dataset::LabelStatus::kPositive;
    step.label.kind = options_.kinds[static_cast<std::size_t>(fault.kind)];
    step.label.level = 3;
    step.label.culprit_rank = RankId{fault.rank};
    if (WholeRank(fault)) return;
    step.label.culprit_symbol =
        "operator_" + std::to_string(kFirstFaultyEntry + static_cast<uint32_t>(fault.kind));
  }

  void AddLog(const Fault& fault, dataset::StepTokens& step) {
    step.log_text.push_back(fault.kind >= 0
                                ? "WARNING slow iteration on worker <num>"
                                : "INFO engine throughput <num> tokens, running <num> requests");
    step.log_rank.push_back(static_cast<uint16_t>(fault.rank));
  }

  const TokensOptions& options_;
  Random random_;
};

}  // namespace

dataset::TokensFile MakeTokens(const TokensOptions& options) { return Generator(options).Make(); }

void PermuteLabels(dataset::TokensFile& run, uint64_t seed) {
  Random random(seed, "permute");
  std::vector<dataset::StepLabel> labels;
  for (const auto& step : run.steps) {
    if ((step.label.reasons & dataset::kReasonCalibration) == 0) labels.push_back(step.label);
  }
  random.Shuffle(std::span<dataset::StepLabel>(labels));
  auto next = labels.begin();
  for (auto& step : run.steps) {
    if ((step.label.reasons & dataset::kReasonCalibration) == 0) step.label = *next++;
  }
}

}  // namespace teller::testing_support
