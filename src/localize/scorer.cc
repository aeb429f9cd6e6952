#include "src/localize/scorer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/core/error.h"

namespace teller::localize {
namespace {

using reconstruct::StepForest;

constexpr float kSpreadFloor = 0.02f;  // of log-times: clocks and caches alone give 2 %
constexpr float kOperatorSpreadFloor = 0.01f;
constexpr double kOperatorOffsetNs = 10'000;  // keeps ratios of nearly nothing small
constexpr double kMaterialShare = 0.01;       // of the step; an excess of so much counts half
constexpr float kCutWidths = 3;
constexpr double kLinearZ = 8;  // beyond, z grows with its logarithm only

uint64_t Pack(const RowKey& key) {
  return uint64_t{static_cast<uint32_t>(key.op)} << 40 |
         uint64_t{static_cast<uint8_t>(key.measure)} << 36 |
         uint64_t{static_cast<uint16_t>(key.occurrence + 1)} << 16 |
         uint64_t{static_cast<uint8_t>(key.phase + 1)} << 8 |
         uint64_t{static_cast<uint8_t>(key.bucket + 1)};
}

/// What the step's rank would have to lose before an excess matters.
double MaterialNs(const StepForest& step) {
  return kMaterialShare * static_cast<double>(std::max<int64_t>(1, step.end_ns - step.begin_ns));
}

/// Operators whose healthy tail is heavier than a normal's (2.3) by more than this much need more
/// to stand out.
constexpr float kUsualTail = 3;
float TailFactor(float tail) { return std::max(1.0f, tail / kUsualTail); }

/// A residual counts in full where its time matters; falling short is not damped. Far out, where
/// all are sure, the time lost decides more than the odds.
float Damp(double z, double excess_ns, double material_ns) {
  const double size = std::abs(z);
  if (size > kLinearZ) z = std::copysign(kLinearZ * (1 + std::log(size / kLinearZ)), z);
  if (excess_ns > 0) z *= excess_ns / (excess_ns + material_ns);
  return static_cast<float>(z);
}

float LogRatio(double observed_ns, double expected_ns) {
  return static_cast<float>(
      std::log((observed_ns + kOperatorOffsetNs) / (expected_ns + kOperatorOffsetNs)));
}

}  // namespace

OperatorTable::OperatorTable(const Baseline& baseline, const StringInterner& symbols) {
  std::map<std::pair<std::string_view, trace::Layer>, int32_t> known;
  for (std::size_t i = 0; i < baseline.operators.size(); ++i) {
    known.emplace(
        std::pair{std::string_view(baseline.operators[i].symbol), baseline.operators[i].layer},
        static_cast<int32_t>(i));
  }
  for (uint32_t s = 0; s < symbols.size(); ++s) {
    auto& by_layer = by_symbol_.emplace_back();
    for (int layer = 0; layer < trace::kLayerCount; ++layer) {
      const auto l = static_cast<trace::Layer>(layer);
      auto found = known.find({symbols.View(StringId{s}), l});
      if (found == known.end()) found = known.find({kAnyOperator, l});
      by_layer[static_cast<std::size_t>(layer)] = found == known.end() ? -1 : found->second;
    }
  }
}

Scorer::Scorer(const Baseline& baseline, const StringInterner& symbols, const RunScale& scale)
    : baseline_(baseline), operators_(baseline, symbols) {
  for (uint32_t i = 0; i < baseline.rows.size(); ++i) {
    row_of_.emplace(Pack(baseline.rows[i].key), i);
  }
  operator_row_.assign(slots(), nullptr);
  for (const OperatorRow& row : baseline.operator_rows) {
    operator_row_[SlotOf(row.op, row.measure)] = &row;
  }
  for (const RunScale::Row& row : scale.rows) {
    const auto rank = static_cast<std::size_t>(row.rank);
    if (rank >= scale_.size()) scale_.resize(rank + 1, std::vector<Scale>(slots()));
    scale_[rank][SlotOf(row.op, row.measure)] = {row, std::exp(static_cast<double>(row.shift))};
  }
}

Scorer::PhaseRows& Scorer::RowsOf(const StepForest& step) {
  const auto at = static_cast<std::size_t>(step.phase) * (kMaxBucket + 1) +
                  static_cast<std::size_t>(BatchBucket(step.batch_size));
  if (at >= resolved_.size()) resolved_.resize(at + 1);
  if (resolved_[at].empty()) resolved_[at].resize(slots());
  return resolved_[at];
}

const Scorer::Row& Scorer::Resolve(PhaseRows& rows, RowKey key) {
  key.occurrence = std::min(key.occurrence, kMaxOccurrence);
  std::vector<Row>& instances = rows[SlotOf(key.op, key.measure)];
  const auto at = static_cast<std::size_t>(key.occurrence);
  if (at >= instances.size()) instances.resize(at + 1);
  Row& row = instances[at];
  if (row.resolved) return row;
  row.resolved = true;
  // From narrow to wide.
  const RowKey tries[] = {key,
                          {key.op, key.measure, key.occurrence, key.phase, -1},
                          {key.op, key.measure, -1, key.phase, key.bucket},
                          {key.op, key.measure, -1, key.phase, -1},
                          {key.op, key.measure, -1, -1, -1}};
  for (const RowKey& attempt : tries) {
    const auto found = row_of_.find(Pack(attempt));
    if (found == row_of_.end()) continue;
    const RobustStat& stat = baseline_.rows[found->second].stat;
    row.median = stat.median;
    row.spread = std::max(stat.spread, kSpreadFloor);
    row.count = stat.count;
    row.exp_median = std::exp(static_cast<double>(stat.median));
    break;
  }
  return row;
}

const Scorer::Scale& Scorer::ScaleOf(int32_t rank, std::size_t slot) const {
  static const Scale kTypical{};
  const auto at = static_cast<std::size_t>(rank);
  return at < scale_.size() ? scale_[at][slot] : kTypical;
}

void Scorer::ScoreNode(NodeScore& score, const Row& row, double material_ns) const {
  const auto observed = static_cast<double>(score.reading.observed_ns);
  score.expected_ns = score.cut_ns = observed;
  if (row.count == 0) return;
  const Scale& scale = ScaleOf(score.rank, SlotOf(score.op, score.reading.measure));
  score.expected_ns = std::max(0.0, row.exp_median * scale.exp_shift - 1000);
  score.residual = LogTime(score.reading.observed_ns) - row.median - scale.row.shift;
  score.width = row.spread * scale.row.spread;
  if (score.residual > kCutWidths * score.width) {
    score.cut_ns =
        std::exp(static_cast<double>(row.median + scale.row.shift + kCutWidths * score.width)) -
        1000;
  }
  const OperatorRow* of = operator_row_[SlotOf(score.op, score.reading.measure)];
  const float factor = of == nullptr ? 1 : TailFactor(of->node_tail);
  score.z = Damp(static_cast<double>(score.residual / (score.width * factor)),
                 observed - score.expected_ns, material_ns);
}

ScoredStep Scorer::ScoreNodes(const StepForest& step) {
  const std::vector<int32_t> rank_of = RankPositions(step);
  const int32_t phase = static_cast<int32_t>(step.phase), bucket = BatchBucket(step.batch_size);
  const double material_ns = MaterialNs(step);
  PhaseRows& rows = RowsOf(step);
  StepReadings read = ReadStep(step);
  ScoredStep scored{{}, std::move(read.last_starter)};
  scored.nodes.reserve(read.readings.size());
  for (const Reading& reading : read.readings) {
    const auto& node = step.nodes[Index(reading.node)];
    const int32_t op = operators_.Find(node.symbol, node.layer);
    if (op < 0) continue;
    NodeScore& score = scored.nodes.emplace_back(
        NodeScore{.reading = reading, .rank = rank_of[node.track], .op = op});
    ScoreNode(score, Resolve(rows, {op, reading.measure, reading.occurrence, phase, bucket}),
              material_ns);
  }
  return scored;
}

std::vector<OperatorScore> Scorer::ScoreOperators(const StepForest& step,
                                                  std::span<const NodeScore> nodes) {
  const std::size_t ranks = step.ranks.size() + 1;  // one more for tracks of no known rank
  index_.resize(std::max(index_.size(), ranks * slots()), -1);
  std::vector<OperatorScore> scores;
  std::vector<double> worst_excess;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const NodeScore& node = nodes[i];
    const double observed = static_cast<double>(node.reading.observed_ns);
    int32_t& at = index_[static_cast<std::size_t>(node.rank) * slots() +
                         SlotOf(node.op, node.reading.measure)];
    if (at < 0) {
      at = static_cast<int32_t>(scores.size());
      scores.push_back(
          {.rank = node.rank, .op = node.op, .measure = node.reading.measure, .worst = i});
      worst_excess.push_back(observed - node.expected_ns);
    }
    const auto s = static_cast<std::size_t>(at);
    OperatorScore& score = scores[s];
    score.observed_ns += observed;
    score.expected_ns += node.expected_ns;
    score.cut_ns += node.cut_ns;
    if (observed - node.expected_ns > worst_excess[s]) {
      worst_excess[s] = observed - node.expected_ns;
      score.worst = i;
    }
  }
  for (OperatorScore& score : scores) {
    score.ratio = LogRatio(score.observed_ns, score.expected_ns);
    score.typical = LogRatio(score.cut_ns, score.expected_ns);
  }
  Lower(scores, nodes);
  Contrast(scores, ranks);
  const double material_ns = MaterialNs(step);
  for (OperatorScore& score : scores) {
    Standardise(score, material_ns);
    index_[static_cast<std::size_t>(score.rank) * slots() + SlotOf(score.op, score.measure)] = -1;
  }
  return scores;
}

void Scorer::Lower(std::vector<OperatorScore>& scores, std::span<const NodeScore> nodes) {
  residuals_.resize(std::max(residuals_.size(), scores.size()));
  for (std::size_t s = 0; s < scores.size(); ++s) residuals_[s].clear();
  for (const NodeScore& node : nodes) {
    const int32_t at = index_[static_cast<std::size_t>(node.rank) * slots() +
                              SlotOf(node.op, node.reading.measure)];
    residuals_[static_cast<std::size_t>(at)].push_back(node.residual);
  }
  for (std::size_t s = 0; s < scores.size(); ++s) scores[s].lower = Quantile(residuals_[s], 0.25);
}

void Scorer::Contrast(std::vector<OperatorScore>& scores, std::size_t ranks) const {
  std::vector<float> others;
  for (OperatorScore& score : scores) {
    others.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == static_cast<std::size_t>(score.rank)) continue;
      const int32_t at = index_[rank * slots() + SlotOf(score.op, score.measure)];
      if (at >= 0) others.push_back(scores[static_cast<std::size_t>(at)].typical);
    }
    score.contrast =
        others.empty() ? std::numeric_limits<float>::quiet_NaN() : score.typical - Median(others);
  }
}

void Scorer::Standardise(OperatorScore& score, double material_ns) const {
  const std::size_t slot = SlotOf(score.op, score.measure);
  const OperatorRow* row = operator_row_[slot];
  if (row == nullptr) return;
  const RunScale::Row& run = ScaleOf(score.rank, slot).row;
  const double excess = score.observed_ns - score.expected_ns;
  const auto standard = [&](float value, const TailedStat& stat, RunScale::Row::Departure of_run) {
    if (stat.count == 0 || std::isnan(value)) return 0.0f;
    const float width =
        std::max(stat.spread, kOperatorSpreadFloor) * of_run.spread * TailFactor(stat.tail);
    return Damp(static_cast<double>((value - stat.median - of_run.shift) / width), excess,
                material_ns);
  };
  score.z = standard(score.ratio, row->ratio, run.ratio);
  score.typical_z = standard(score.typical, row->typical, run.typical);
  score.lower_z = standard(score.lower, row->lower, run.lower);
  score.contrast_z = standard(score.contrast, row->contrast, run.contrast);
}

std::vector<int32_t> RankPositions(const StepForest& step) {
  std::vector<int32_t> positions;
  for (const auto& track : step.tracks) {
    const auto found = std::find(step.ranks.begin(), step.ranks.end(), track.rank);
    positions.push_back(static_cast<int32_t>(found - step.ranks.begin()));
  }
  return positions;
}

}  // namespace teller::localize
