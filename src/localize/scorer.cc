#include "src/localize/scorer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

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
constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

uint64_t Pack(const RowKey& key) {
  return uint64_t{static_cast<uint32_t>(key.op)} << 40 |
         uint64_t{static_cast<uint8_t>(key.measure)} << 36 |
         uint64_t{static_cast<uint16_t>(key.occurrence + 1)} << 16 |
         uint64_t{static_cast<uint8_t>(key.phase + 1)} << 8 |
         uint64_t{static_cast<uint8_t>(key.bucket + 1)};
}

uint64_t PackOperator(int32_t rank, int32_t op, Measure measure) {
  return uint64_t{static_cast<uint32_t>(rank)} << 40 | uint64_t{static_cast<uint32_t>(op)} << 8 |
         static_cast<uint64_t>(measure);
}

/// What the step's rank would have to lose before an excess matters.
double MaterialNs(const StepForest& step) {
  return kMaterialShare * static_cast<double>(std::max<int64_t>(1, step.end_ns - step.begin_ns));
}

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
  for (uint32_t i = 0; i < baseline.rows.size(); ++i)
    row_of_.emplace(Pack(baseline.rows[i].key), i);
  for (uint32_t i = 0; i < baseline.operator_rows.size(); ++i) {
    const OperatorRow& row = baseline.operator_rows[i];
    operator_row_of_.emplace(PackOperator(0, row.op, row.measure), i);
  }
  for (const RunScale::Row& row : scale.rows) {
    scale_.emplace(PackOperator(row.rank, row.op, row.measure), row);
  }
}

const RobustStat& Scorer::StatOf(RowKey key) {
  static constexpr RobustStat kNothing{};
  const auto [known, fresh] = resolved_.try_emplace(Pack(key), kNoRow);
  if (fresh) {
    // From narrow to wide.
    const RowKey tries[] = {key,
                            {key.op, key.measure, key.occurrence, key.phase, -1},
                            {key.op, key.measure, -1, key.phase, key.bucket},
                            {key.op, key.measure, -1, key.phase, -1},
                            {key.op, key.measure, -1, -1, -1}};
    for (const RowKey& attempt : tries) {
      const auto found = row_of_.find(Pack(attempt));
      if (found == row_of_.end()) continue;
      known->second = found->second;
      break;
    }
  }
  return known->second == kNoRow ? kNothing : baseline_.rows[known->second].stat;
}

const RunScale::Row* Scorer::ScaleOf(int32_t rank, int32_t op, Measure measure) const {
  const auto found = scale_.find(PackOperator(rank, op, measure));
  return found == scale_.end() ? nullptr : &found->second;
}

void Scorer::ScoreNode(NodeScore& score, int32_t phase, int32_t bucket, double material_ns) {
  const Reading& reading = score.reading;
  const RobustStat& stat =
      StatOf({score.op, reading.measure, std::min(reading.occurrence, 1000), phase, bucket});
  score.expected_ns = score.cut_ns = static_cast<double>(reading.observed_ns);
  if (stat.count == 0) return;
  const RunScale::Row* scale = ScaleOf(score.rank, score.op, reading.measure);
  const float expected = stat.median + (scale ? scale->shift : 0);
  score.expected_ns = std::max(0.0, std::exp(static_cast<double>(expected)) - 1000);
  score.residual = LogTime(reading.observed_ns) - expected;
  score.width = std::max(stat.spread, kSpreadFloor) * (scale ? scale->spread : 1);
  score.cut_ns = std::min(
      score.cut_ns, std::exp(static_cast<double>(expected + kCutWidths * score.width)) - 1000);
  score.z = Damp(static_cast<double>(score.residual / score.width),
                 static_cast<double>(reading.observed_ns) - score.expected_ns, material_ns);
}

std::vector<NodeScore> Scorer::ScoreNodes(const StepForest& step) {
  const std::vector<int32_t> rank_of = RankPositions(step);
  const int32_t phase = static_cast<int32_t>(step.phase), bucket = BatchBucket(step.batch_size);
  const double material_ns = MaterialNs(step);
  std::vector<NodeScore> scores;
  for (const Reading& reading : ReadStep(step)) {
    const auto& node = step.nodes[Index(reading.node)];
    NodeScore score{.reading = reading,
                    .rank = rank_of[node.track],
                    .op = operators_.Find(node.symbol, node.layer)};
    if (score.op < 0) continue;
    ScoreNode(score, phase, bucket, material_ns);
    scores.push_back(score);
  }
  return scores;
}

std::vector<OperatorScore> Scorer::ScoreOperators(const StepForest& step,
                                                  std::span<const NodeScore> nodes) const {
  std::unordered_map<uint64_t, uint32_t> index;
  std::vector<OperatorScore> scores;
  std::vector<double> worst_excess;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const NodeScore& node = nodes[i];
    const auto [found, fresh] =
        index.try_emplace(PackOperator(node.rank, node.op, node.reading.measure),
                          static_cast<uint32_t>(scores.size()));
    if (fresh) {
      scores.push_back(
          {.rank = node.rank, .op = node.op, .measure = node.reading.measure, .worst = i});
      worst_excess.push_back(-std::numeric_limits<double>::infinity());
    }
    OperatorScore& score = scores[found->second];
    const double observed = static_cast<double>(node.reading.observed_ns);
    score.observed_ns += observed;
    score.expected_ns += node.expected_ns;
    score.cut_ns += node.cut_ns;
    if (observed - node.expected_ns > worst_excess[found->second]) {
      worst_excess[found->second] = observed - node.expected_ns;
      score.worst = i;
    }
  }
  for (OperatorScore& score : scores) {
    score.ratio = LogRatio(score.observed_ns, score.expected_ns);
    score.typical = LogRatio(score.cut_ns, score.expected_ns);
  }
  Contrast(scores);
  const double material_ns = MaterialNs(step);
  for (OperatorScore& score : scores) Standardise(score, material_ns);
  return scores;
}

void Scorer::Contrast(std::vector<OperatorScore>& scores) const {
  std::map<std::pair<int32_t, Measure>, std::vector<std::size_t>> peers;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    peers[{scores[i].op, scores[i].measure}].push_back(i);
  }
  for (const auto& [key, members] : peers) {
    for (const std::size_t i : members) {
      std::vector<float> others;
      for (const std::size_t j : members) {
        if (j != i) others.push_back(scores[j].typical);
      }
      scores[i].contrast = others.empty() ? std::numeric_limits<float>::quiet_NaN()
                                          : scores[i].typical - Median(others);
    }
  }
}

void Scorer::Standardise(OperatorScore& score, double material_ns) const {
  const auto found = operator_row_of_.find(PackOperator(0, score.op, score.measure));
  if (found == operator_row_of_.end()) return;
  const OperatorRow& row = baseline_.operator_rows[found->second];
  const RunScale::Row* scale = ScaleOf(score.rank, score.op, score.measure);
  const double excess = score.observed_ns - score.expected_ns;
  const auto standard = [&](float value, const RobustStat& stat, RunScale::Row::Departure run) {
    if (stat.count == 0 || std::isnan(value)) return 0.0f;
    const float width = std::max(stat.spread, kOperatorSpreadFloor) * run.spread;
    return Damp(static_cast<double>((value - stat.median - run.shift) / width), excess,
                material_ns);
  };
  const RunScale::Row none;
  const RunScale::Row& run = scale ? *scale : none;
  score.z = standard(score.ratio, row.ratio, run.ratio);
  score.typical_z = standard(score.typical, row.typical, run.typical);
  score.contrast_z = standard(score.contrast, row.contrast, run.contrast);
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
