#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/experiment/scored_step.h"

namespace teller::experiment {

/// What one method with one training seed said, with the thresholds it chose on validation.
struct SeedResult {
  int64_t seed = 0;
  std::vector<ScoredStep> test;
  std::map<double, double> thresholds;  ///< by prior

  /// The threshold for a prior. A bug where none was chosen.
  double ThresholdAt(double prior) const { return thresholds.at(prior); }
};

/// Chooses a threshold per prior on validation steps (all views together). Priors without one get
/// +infinity: a method that saw no positive never alarms.
std::map<double, double> ChooseThresholds(const std::vector<ScoredStep>& validation,
                                          const std::vector<double>& priors);

/// From so many test runs on an interval is printed; below it covers too rarely (docs/protocol.md,
/// section 2), so the least and largest value of a run stand instead.
inline constexpr std::size_t kRunsForInterval = 8;

/// A number with what surrounds it. NaN where undefined.
struct Estimate {
  double value = 0;  ///< pooled over runs, mean over seeds
  double low = 0;
  double high = 0;
  bool is_interval = false;  ///< 95 % bootstrap interval; else the range over runs
  int64_t steps = 0;         ///< that the filter left
  int64_t positives = 0;
  int64_t runs = 0;
  int64_t seeds = 0;
};

using Metric = std::function<double(const SeedResult& seed, const StepRefs& steps)>;

/// The same with the mean of the runs' own values in place of the pooled value: for controls, where
/// runs that differ in their share of positives would pass for knowledge of steps.
Estimate EstimateWithinRuns(const std::vector<SeedResult>& seeds, const PositiveFilter& filter,
                            const Metric& metric);

/// Evaluates a metric on the steps that `filter` leaves.
Estimate EstimateMetric(const std::vector<SeedResult>& seeds, const PositiveFilter& filter,
                        const Metric& metric, uint64_t resampling_seed = 1);

}  // namespace teller::experiment
