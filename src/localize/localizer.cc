#include "src/localize/localizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "src/core/error.h"
#include "src/localize/scorer.h"

namespace teller::localize {
namespace {

using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr float kShiftPrior = 20;   // samples' worth of pull towards the whole rank's shift
constexpr float kSpreadPrior = 50;  // and of its noise
constexpr float kOperatorPrior = 10;
constexpr float kHealthyQuantile = 4;  // what channels are scaled to
constexpr float kLeastSpread = 0.5f, kMostSpread = 8;
constexpr float kCreditShare =
    0.9f;  // blame passed along a wait, so that first-hand evidence goes first

using OperatorKey = std::tuple<int32_t, int32_t, Measure>;  // rank, op, measure

float Pull(float value, float towards, std::size_t count, float prior) {
  const auto n = static_cast<float>(count);
  return (value * n + towards * prior) / (n + prior);
}

/// Noise relative to 1, pulled towards `prior_value` where there are few samples.
float NoiseOf(std::vector<float>& z, float prior_value) {
  const float spread = FitRobust(z).spread;
  return std::clamp(Pull(spread, prior_value, z.size(), kSpreadPrior), kLeastSpread, kMostSpread);
}

/// Values of nodes in a calibration window, as shifts and noise by operator.
std::vector<RunScale::Row> NodeScales(const std::map<OperatorKey, std::vector<NodeScore>>& nodes) {
  std::map<std::pair<int32_t, Measure>, std::vector<float>> by_rank;
  for (const auto& [key, scores] : nodes) {
    auto& all = by_rank[{std::get<0>(key), std::get<2>(key)}];
    for (const NodeScore& score : scores) all.push_back(score.residual);
  }
  std::vector<RunScale::Row> rows;
  for (const auto& [key, scores] : nodes) {
    const auto [rank, op, measure] = key;
    std::vector<float> residual, z;
    for (const NodeScore& score : scores) residual.push_back(score.residual);
    RunScale::Row row{.rank = rank, .op = op, .measure = measure};
    row.shift =
        Pull(Median(residual), Median(by_rank[{rank, measure}]), residual.size(), kShiftPrior);
    for (const NodeScore& score : scores) {
      if (score.width > 0) z.push_back((score.residual - row.shift) / score.width);
    }
    if (!z.empty()) row.spread = NoiseOf(z, 1);
    rows.push_back(row);
  }
  return rows;
}

/// Log-ratios of one operator in a calibration window.
struct Ratios {
  std::vector<float> ratio, typical, lower, contrast;
};

std::map<OperatorKey, Ratios> Departures(Scorer& scorer,
                                         std::span<const StepForest* const> calibration) {
  std::map<OperatorKey, Ratios> found;
  for (const StepForest* step : calibration) {
    const std::vector<NodeScore> nodes = scorer.ScoreNodes(*step).nodes;
    for (const OperatorScore& op : scorer.ScoreOperators(*step, nodes)) {
      Ratios& ratios = found[{op.rank, op.op, op.measure}];
      ratios.ratio.push_back(op.ratio);
      ratios.typical.push_back(op.typical);
      ratios.lower.push_back(op.lower);
      if (!std::isnan(op.contrast)) ratios.contrast.push_back(op.contrast);
    }
  }
  return found;
}

RunScale::Row::Departure FitDeparture(std::vector<float>& values, const RobustStat& stat) {
  if (values.empty() || stat.count == 0) return {};
  const RobustStat found = FitRobust(values);
  const float relative = found.spread / std::max(stat.spread, 0.01f);
  return {Pull(found.median - stat.median, 0, values.size(), kOperatorPrior),
          std::clamp(Pull(relative, 1, values.size(), kSpreadPrior), kLeastSpread, kMostSpread)};
}

void AddDepartures(const Baseline& baseline, std::map<OperatorKey, Ratios> ratios,
                   RunScale& scale) {
  std::map<std::pair<int32_t, Measure>, const OperatorRow*> known;
  for (const OperatorRow& row : baseline.operator_rows) known[{row.op, row.measure}] = &row;
  for (RunScale::Row& row : scale.rows) {
    const auto of = known.find({row.op, row.measure});
    if (of == known.end()) continue;
    Ratios& found = ratios[{row.rank, row.op, row.measure}];
    row.ratio = FitDeparture(found.ratio, of->second->ratio);
    row.typical = FitDeparture(found.typical, of->second->typical);
    row.lower = FitDeparture(found.lower, of->second->lower);
    row.contrast = FitDeparture(found.contrast, of->second->contrast);
  }
}

}  // namespace

struct Localizer::State {
  State(const Baseline& b, const StringInterner& s, RunScale run_scale, const LocalizeOptions& o)
      : baseline(b), symbols(s), options(o), scale(std::move(run_scale)), scorer(b, s, scale) {}

  float Scale(Evidence evidence, Measure measure) const {
    const std::size_t channel = ChannelOf(evidence, measure);
    return channel < baseline.channel_scale.size() ? baseline.channel_scale[channel] : 1.0f;
  }
  float PValue(float score) const {
    const auto& maxima = baseline.healthy_maxima;
    const auto above = maxima.end() - std::lower_bound(maxima.begin(), maxima.end(), score);
    return static_cast<float>(1 + above) / static_cast<float>(1 + maxima.size());
  }

  const Baseline& baseline;
  const StringInterner& symbols;
  LocalizeOptions options;
  RunScale scale;
  Scorer scorer;
  std::vector<uint32_t> candidate_of;  // scratch of StepLocalizer, by rank and slot
};

namespace {

/// One step's way from scores to suspects.
class StepLocalizer {
 public:
  StepLocalizer(Localizer::State& state, const StepForest& step)
      : state_(state),
        step_(step),
        scored_(state.scorer.ScoreNodes(step)),
        operators_(state.scorer.ScoreOperators(step, scored_.nodes)),
        nodes_(scored_.nodes),
        last_starter_(scored_.last_starter) {}

  StepSuspects Run() {
    FillResiduals();
    for (const OperatorScore& op : operators_) AddOperator(op);
    for (const NodeScore& node : nodes_) AddNode(node);
    FollowWaits();
    std::stable_sort(suspects_.candidates.begin(), suspects_.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.z > b.z; });
    DropRepeatedNodes();
    const float first = suspects_.candidates.empty() ? 0 : suspects_.candidates[0].z;
    suspects_.score = std::max(0.0f, first) + std::max(0.0f, step_z_);
    suspects_.p_value = state_.PValue(suspects_.score);
    for (Candidate& candidate : suspects_.candidates)
      candidate.p_value = state_.PValue(candidate.z);
    return std::move(suspects_);
  }

 private:
  void FillResiduals() {
    suspects_.node_residual.assign(step_.nodes.size(), 0);
    std::vector<uint8_t> filled(step_.nodes.size(), 0);
    for (const NodeScore& node : nodes_) {
      if (node.reading.measure == Measure::kWait) continue;
      const std::size_t i = Index(node.reading.node);
      float& residual = suspects_.node_residual[i];
      residual = filled[i] ? std::max(residual, node.z) : node.z;
      filled[i] = 1;
    }
  }

  Candidate& CandidateOf(const NodeScore& node) {
    const auto key = static_cast<std::size_t>(node.rank) * state_.scorer.slots() +
                     state_.scorer.SlotOf(node.op, node.reading.measure);
    if (key >= state_.candidate_of.size()) state_.candidate_of.resize(key + 1, 0);
    uint32_t& at = state_.candidate_of[key];  // 1 + index; another step's where it does not fit
    if (at == 0 || at > keys_.size() || keys_[at - 1] != key) {
      keys_.push_back(key);
      suspects_.candidates.push_back(Describe(node));
      at = static_cast<uint32_t>(keys_.size());
    }
    return suspects_.candidates[at - 1];
  }
  Candidate Describe(const NodeScore& node) const {
    Candidate candidate;
    candidate.node = node.reading.node;
    candidate.rank = step_.tracks[step_.nodes[Index(node.reading.node)].track].rank;
    candidate.measure = node.reading.measure;
    candidate.observed_ns = node.reading.observed_ns;
    candidate.expected_ns = static_cast<int64_t>(node.expected_ns);
    candidate.z = -1e9f;
    if (candidate.measure == Measure::kTransfer && step_.ranks.size() == 2) {
      candidate.peer = step_.ranks[node.rank == 0 ? 1 : 0];
    }
    return candidate;
  }

  float OperatorZ(const OperatorScore& op) const {
    return std::max({op.z * state_.Scale(Evidence::kOperator, op.measure),
                     op.typical_z * state_.Scale(Evidence::kTypical, op.measure),
                     op.lower_z * state_.Scale(Evidence::kLower, op.measure),
                     op.contrast_z * state_.Scale(Evidence::kContrast, op.measure)});
  }

  void AddOperator(const OperatorScore& op) {
    const float z = OperatorZ(op);
    if (op.measure == Measure::kWait) {
      suspects_.wait_z = std::max(suspects_.wait_z, z);
      return;
    }
    if (op.measure == Measure::kStep) {
      step_z_ = std::max(step_z_, z);
      return;
    }
    Candidate& candidate = CandidateOf(nodes_[op.worst]);
    candidate.z = std::max(candidate.z, z);
  }
  void AddNode(const NodeScore& node) {
    if (node.reading.measure == Measure::kWait || node.reading.measure == Measure::kStep) return;
    Candidate& candidate = CandidateOf(node);
    candidate.z =
        std::max(candidate.z, node.z * state_.Scale(Evidence::kNode, node.reading.measure));
  }

  /// Each rank's longest excess of waiting is blamed on what made the last starter late: the
  /// largest excess on that rank since its previous collective, or the collective's own late start
  /// where there is none.
  void FollowWaits() {
    for (const OperatorScore& op : operators_) {
      if (op.measure != Measure::kWait) continue;
      const NodeScore& victim = nodes_[op.worst];
      const double excess = static_cast<double>(victim.reading.observed_ns) - victim.expected_ns;
      const float z =
          std::max(OperatorZ(op), victim.z * state_.Scale(Evidence::kNode, Measure::kWait));
      if (z <= 0 || excess <= 0) continue;
      if (excess < static_cast<double>(state_.options.clock_error_ns)) {
        suspects_.undecided |= z > kHealthyQuantile;
        continue;
      }
      BlameLastStarter(last_starter_[Index(victim.reading.node)], victim, z * kCreditShare);
    }
  }

  void BlameLastStarter(NodeId late, const NodeScore& victim, float z) {
    const StepNode& collective = step_.nodes[Index(late)];
    const RankId rank = step_.tracks[collective.track].rank;
    const int64_t from = PreviousCollectiveEnd(rank, collective.begin_ns);
    const NodeScore* culprit = nullptr;
    const double wait_excess = static_cast<double>(victim.reading.observed_ns) - victim.expected_ns;
    double most = wait_excess / 4;  // less does not explain the wait
    for (const NodeScore& node : nodes_) {
      const StepNode& at = step_.nodes[Index(node.reading.node)];
      if (step_.tracks[at.track].rank != rank || IsNoCause(node)) continue;
      const bool before = at.begin_ns + at.duration_ns > from && at.begin_ns < collective.begin_ns;
      if (!before && node.reading.node != late) continue;
      const double excess = static_cast<double>(node.reading.observed_ns) - node.expected_ns;
      if (excess <= most) continue;
      most = excess;
      culprit = &node;
    }
    if (culprit == nullptr) {
      keys_.push_back(SIZE_MAX);
      Candidate& unexplained = suspects_.candidates.emplace_back(Describe(victim));
      unexplained.node = late;
      unexplained.rank = rank;
      unexplained.measure = Measure::kGapBefore;
      unexplained.z = z;
      return;
    }
    Candidate& candidate = CandidateOf(*culprit);
    if (z <= candidate.z) return;
    candidate = Describe(*culprit);
    candidate.z = z;
  }
  static bool IsNoCause(const NodeScore& node) {
    const Measure measure = node.reading.measure;
    return measure == Measure::kWait || measure == Measure::kTransfer || measure == Measure::kStep;
  }
  int64_t PreviousCollectiveEnd(RankId rank, int64_t before_ns) const {
    int64_t end = INT64_MIN;
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      const StepNode& node = step_.nodes[i];
      if (last_starter_[i] == kNoNode || step_.tracks[node.track].rank != rank) continue;
      const int64_t node_end = node.begin_ns + node.duration_ns;
      if (node_end <= before_ns) end = std::max(end, node_end);
    }
    return end;
  }

  void DropRepeatedNodes() {
    std::vector<uint8_t> seen(step_.nodes.size(), 0);
    std::vector<Candidate> kept;
    for (const Candidate& candidate : suspects_.candidates) {
      if (static_cast<int>(kept.size()) == state_.options.candidates) break;
      if (seen[Index(candidate.node)]) continue;
      seen[Index(candidate.node)] = 1;
      kept.push_back(candidate);
    }
    suspects_.candidates = std::move(kept);
  }

  Localizer::State& state_;
  const StepForest& step_;
  ScoredStep scored_;
  std::vector<OperatorScore> operators_;
  const std::vector<NodeScore>& nodes_;
  const std::vector<NodeId>& last_starter_;
  float step_z_ = 0;
  std::vector<std::size_t> keys_;  // by candidate: its rank and slot
  StepSuspects suspects_;
};

}  // namespace

Localizer::Localizer(const Baseline& baseline, const StringInterner& symbols, RunScale scale,
                     const LocalizeOptions& options)
    : state_(std::make_unique<State>(baseline, symbols, std::move(scale), options)) {}
Localizer::~Localizer() = default;
Localizer::Localizer(Localizer&&) noexcept = default;
Localizer& Localizer::operator=(Localizer&&) noexcept = default;

StepSuspects Localizer::Localize(const StepForest& step) {
  return StepLocalizer(*state_, step).Run();
}

RunScale Localizer::MeasureScale(std::span<const StepForest* const> calibration) {
  RunScale scale;
  std::map<OperatorKey, std::vector<NodeScore>> nodes;
  Scorer plain(state_->baseline, state_->symbols, {});
  for (const StepForest* step : calibration) {
    for (const NodeScore& node : plain.ScoreNodes(*step).nodes) {
      nodes[{node.rank, node.op, node.reading.measure}].push_back(node);
    }
  }
  scale.rows = NodeScales(nodes);
  Scorer shifted(state_->baseline, state_->symbols, scale);
  AddDepartures(state_->baseline, Departures(shifted, calibration), scale);
  return scale;
}

}  // namespace teller::localize
