#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/core/ids.h"
#include "src/localize/candidates.h"
#include "src/localize/robust.h"
#include "src/reconstruct/step_forest.h"
#include "src/trace/event.h"

namespace teller::localize {

/// An operator of the baseline: a normalised symbol in a layer. Symbol '(any)' stands for every
/// operator of its layer and serves those never seen.
struct BaselineOperator {
  std::string symbol;
  trace::Layer layer{};

  bool operator==(const BaselineOperator&) const = default;
};
inline constexpr const char* kAnyOperator = "(any)";

/// What a row is narrowed to; -1: any.
struct RowKey {
  int32_t op = 0;  ///< index into Baseline::operators
  Measure measure{};
  int32_t occurrence = -1;  ///< which instance on its track in the step
  int32_t phase = -1;       ///< reconstruct::Phase
  int32_t bucket = -1;      ///< BatchBucket

  auto operator<=>(const RowKey&) const = default;
};

/// Healthy values of one measure of one operator: median and spread of log(ns + 1000), scaled to
/// the typical run.
struct BaselineRow {
  RowKey key;
  RobustStat stat;
};

/// A robust stat with the weight of its upper tail: healthy times on a shared host are far from
/// normal, and each operator's in its own way.
struct TailedStat : RobustStat {
  float tail = 0;  ///< 99th percentile of (value - median) / spread in healthy steps
};

/// How all instances of an operator on one rank together depart from their expectation in healthy
/// steps.
struct OperatorRow {
  int32_t op = 0;
  Measure measure{};
  TailedStat ratio;    ///< log((observed + 10 us) / (expected + 10 us)) of their sums
  TailedStat typical;  ///< the same, each instance cut at three spreads above its expectation, so
                       ///< that one outlier does not pass for a slow operator
  TailedStat
      lower;  ///< lower quartile of their log-time residuals: noise adds time, but not to all
  TailedStat contrast;  ///< `typical` less the median of the other ranks
  float node_tail = 0;  ///< 99th percentile of single instances' standardised residuals
};

/// The kinds of evidence; each measure of each is a channel with a scale of its own.
enum class Evidence : uint8_t { kNode = 0, kOperator = 1, kTypical = 2, kLower = 3, kContrast = 4 };
inline constexpr int kEvidenceCount = 5;
inline constexpr int kChannelCount = kEvidenceCount * kMeasureCount;
constexpr std::size_t ChannelOf(Evidence evidence, Measure measure) {
  return static_cast<std::size_t>(evidence) * kMeasureCount + static_cast<std::size_t>(measure);
}

/// What healthy steps of the training runs look like (docs/schema/baseline.md).
struct Baseline {
  std::vector<BaselineOperator> operators;
  std::vector<BaselineRow> rows;           ///< by key
  std::vector<OperatorRow> operator_rows;  ///< by (op, measure)
  std::vector<float> channel_scale;        ///< by ChannelOf: what a residual is multiplied by
  std::vector<float> healthy_maxima;       ///< scores of held-out healthy steps, ascending
};

inline constexpr int32_t kMaxOccurrence = 1000;  ///< later instances share one row
inline constexpr int32_t kMaxBucket = 20;

/// 0: 1, 1: 2, 2: 3-4, 3: 5-8, ... up to kMaxBucket.
int32_t BatchBucket(int32_t batch_size);

/// log(ns + 1000): noise below a microsecond counts for little.
float LogTime(int64_t ns);

/// A run to fit on; flags by step.
struct TrainingRun {
  const reconstruct::RunForest* run = nullptr;
  std::vector<uint8_t> healthy;      ///< may be fitted
  std::vector<uint8_t> calibration;  ///< in the run's calibration window
  int64_t clock_error_ns = 20'000;   ///< bound of the error between its ranks' clocks
};

struct FitOptions {
  int64_t max_nodes = 1'500'000;  ///< in healthy steps, evenly chosen over runs and time
  int folds =
      3;  ///< over runs, for the scales and maxima of held-out steps; at most the number of runs
  int min_samples = 24;  ///< of a row; rarer ones fall back to a wider row
};

/// Fits on the healthy steps of the runs, each scaled by its calibration window. Scales and maxima
/// come from runs held out in turn; of a single run the second half of its steps is held out.
/// @throws DataError where no run has a healthy step with a forest
Baseline FitBaseline(std::span<const TrainingRun> runs, const FitOptions& options = {});

/// Throws DataError unless keys refer to operators, rows are in order and all numbers finite. A
/// baseline that came from a file goes through this before any use.
void CheckBaseline(const Baseline& baseline);

}  // namespace teller::localize
