#include "src/model/training_set.h"

#include <set>
#include <utility>

#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::model {
namespace {

/// Endless draws from a list, shuffled anew on every round.
class Cycle {
 public:
  Cycle(std::vector<uint32_t> items, uint64_t seed, std::string_view part)
      : items_(std::move(items)), random_(seed, part), next_(items_.size()) {}

  bool empty() const { return items_.empty(); }
  uint32_t Draw() {
    if (next_ == items_.size()) {
      random_.Shuffle(std::span<uint32_t>(items_));
      next_ = 0;
    }
    return items_[next_++];
  }

 private:
  std::vector<uint32_t> items_;
  Random random_;
  std::size_t next_;
};

/// Positive steps by kind; those of no listed kind come last.
std::vector<Cycle> PositiveCycles(const LabelledSteps& steps, int64_t kinds, uint64_t seed) {
  std::vector<std::vector<uint32_t>> by_kind(static_cast<std::size_t>(kinds) + 1);
  for (uint32_t i = 0; i < steps.targets.size(); ++i) {
    const StepTarget& target = steps.targets[i];
    if (!target.use || !target.abnormal) continue;
    by_kind[target.kind < 0 ? static_cast<std::size_t>(kinds)
                            : static_cast<std::size_t>(target.kind)]
        .push_back(i);
  }
  std::vector<Cycle> cycles;
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
    if (by_kind[kind].empty()) continue;
    cycles.emplace_back(std::move(by_kind[kind]), seed, "positive " + std::to_string(kind));
  }
  return cycles;
}

Cycle NegativeCycle(const LabelledSteps& steps, uint64_t seed) {
  std::vector<uint32_t> negatives;
  for (uint32_t i = 0; i < steps.targets.size(); ++i) {
    if (steps.targets[i].use && !steps.targets[i].abnormal) negatives.push_back(i);
  }
  return {std::move(negatives), seed, "negative"};
}

void CountLabels(const dataset::StepTokens& step, std::map<std::string, int64_t>& counts) {
  ++counts["steps"];
  if ((step.label.reasons & dataset::kReasonCalibration) != 0) {
    ++counts["steps_excluded_calibration"];
  } else if (step.label.status == dataset::LabelStatus::kGrey) {
    ++counts["steps_excluded_grey"];
  } else if (step.label.status == dataset::LabelStatus::kPositive) {
    ++counts["steps_positive"];
  } else {
    ++counts["steps_negative"];
  }
}

}  // namespace

LabelledSteps BuildLabelledSteps(std::span<const dataset::TokensFile* const> runs,
                                 const InputShape& shape, const Standardization& standardization,
                                 const LogPieces& pieces, const ModelConfig& config,
                                 std::span<const std::string> kinds) {
  LabelledSteps steps;
  for (const dataset::TokensFile* run : runs) {
    std::vector<StepFeatures> features =
        BuildFeatures(*run, shape, standardization, pieces, config);
    for (std::size_t i = 0; i < features.size(); ++i) {
      steps.targets.push_back(BuildTarget(*run, run->steps[i], features[i], kinds));
      steps.names.push_back(run->run_id + " step " + std::to_string(run->steps[i].engine_step));
      steps.features.push_back(std::move(features[i]));
    }
  }
  return steps;
}

std::vector<std::string> CollectKinds(std::span<const dataset::TokensFile* const> runs) {
  std::set<std::string> kinds;
  for (const dataset::TokensFile* run : runs) {
    for (const auto& step : run->steps) {
      const bool positive = step.label.status == dataset::LabelStatus::kPositive;
      if (positive && IsTrainingStep(step) && !step.label.kind.empty())
        kinds.insert(step.label.kind);
    }
  }
  return {kinds.begin(), kinds.end()};
}

std::map<std::string, int64_t> CountSteps(std::span<const dataset::TokensFile* const> runs,
                                          const LabelledSteps& steps) {
  std::map<std::string, int64_t> counts;
  std::size_t next = 0;
  for (const dataset::TokensFile* run : runs) {
    for (const auto& step : run->steps) {
      const StepFeatures& features = steps.features[next];
      const StepTarget& target = steps.targets[next++];
      CountLabels(step, counts);
      counts["tokens"] += static_cast<int64_t>(step.tokens.size());
      counts["tokens_cut"] += features.cut_tokens;
      counts["steps_with_cut_tokens"] += features.cut_tokens > 0 ? 1 : 0;
      counts["log_pieces_cut"] += features.cut_logs;
      counts["values_replaced"] += features.replaced;
      const bool lost = target.use && target.abnormal && target.pointer == PointerTarget::kUnused;
      counts["steps_without_pointer_target"] += lost ? 1 : 0;
    }
  }
  return counts;
}

std::vector<std::vector<uint32_t>> PlanBatches(const LabelledSteps& steps, int64_t kinds,
                                               const ModelConfig& config, int64_t seed) {
  std::vector<Cycle> positives = PositiveCycles(steps, kinds, static_cast<uint64_t>(seed));
  Cycle negatives = NegativeCycle(steps, static_cast<uint64_t>(seed));
  if (positives.empty())
    throw DataError("training runs hold no positive step; nothing to learn from");
  if (negatives.empty())
    throw DataError("training runs hold no negative step; nothing to learn from");
  std::vector<std::vector<uint32_t>> plan(static_cast<std::size_t>(config.updates));
  std::size_t turn = 0;
  for (auto& batch : plan) {
    for (int64_t i = 0; i < config.batch; ++i) {
      const bool positive = i % 2 == 0;
      batch.push_back(positive ? positives[turn++ % positives.size()].Draw() : negatives.Draw());
    }
  }
  return plan;
}

}  // namespace teller::model
