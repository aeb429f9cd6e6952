#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/random.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/truth_reader.h"

namespace teller::experiment {

/// A request as the load generator saw it, on the base clock (docs/schema/run_folder.md).
struct LoadRequest {
  int64_t begin_ns = 0, first_token_ns = 0, end_ns = 0;
  int64_t tpot_ns = 0;
};

/// What one stretch did, by the injector's evidence and by the steps and requests in it.
struct StretchEffect {
  std::string engine, kind;
  int32_t level = 0;
  bool placebo = false;
  bool acted = false;
  bool visible = false;    ///< the interval of its mean step time excludes that of healthy steps
  double planned_us = 0;   ///< recorded time per affected step, as planned
  double size_ratio = 0;   ///< median length of an action over the planned one; NaN: has no size
  double step_ratio = 0;   ///< median step over its bucket's healthy median
  double mean_ratio = 0;   ///< the same of means
  double tpot_ratio = 0;   ///< NaN: no request lay in it
  double recovery_ms = 0;  ///< measured by the labels
  int64_t positive = 0, grey = 0;   ///< steps
  double elsewhere = 0;             ///< share of the recorded time on ranks that it did not name
  std::vector<double> recorded_us;  ///< of every affected step
  std::vector<double> extra_us;     ///< of the same steps: beyond the bucket's healthy median
};

/// Every stretch of a run that is alone in its time. `steps` and `truth` are of the same run.
std::vector<StretchEffect> MeasureStretches(const dataset::StepsFile& steps,
                                            const dataset::Truth& truth,
                                            std::span<const LoadRequest> requests);

/// A run that has one configuration from begin to end.
struct WholeRun {
  std::string engine;
  std::string kind;  ///< of the configuration fault; empty: a healthy restart
  int32_t level = 0;
  std::vector<double> step_ms, tpot_ms, request_ms;
};

/// A run as that, where it is one: without a stretch, or under a configuration fault.
std::optional<WholeRun> AsWholeRun(const dataset::StepsFile& steps, const dataset::Truth& truth,
                                   std::span<const LoadRequest> requests);

/// Reads load.jsonl; requests without two tokens are left out. Throws DataError.
std::vector<LoadRequest> ReadLoadRequests(const std::filesystem::path& path);

struct Interval {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// 95 % of the values of `draw`; NaN where half of them or more are.
Interval Resample(uint64_t seed, const std::function<double(Random&)>& draw);

}  // namespace teller::experiment
