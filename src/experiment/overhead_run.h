#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "src/experiment/overhead_config.h"

namespace teller::experiment {

/// What was measured in one stretch; NaN where no request or token fell into it whole.
struct StretchMeasure {
  std::string workload;
  int concurrency = 1;
  WatchMode mode = WatchMode::kOff;
  int start = 0;  ///< of the engine; attached and not attached ones are numbered apart
  int block = 0;
  double tpot_ns = 0;       ///< median over requests of their mean time a token
  double ttft_ns = 0;       ///< median over requests
  double tokens_per_s = 0;  ///< output tokens
  int64_t requests = 0;     ///< behind the medians
  double drain_cpu = 0;     ///< processor time of the collector's threads over the stretch's
  double pool_mib = 0;      ///< shared memory of all pools at its end
};

struct OverheadMeasures {
  std::vector<StretchMeasure> stretches;
  std::vector<std::string> notes;  ///< a line each: what is missing and why
};

/// The mean of the middle two where the count is even, since stretches are few; NaN values are left
/// out, NaN of none.
double MedianOf(std::vector<double> values);

/// Runs every workload of the experiment: starts of the engine with and without the agent in random
/// order; within an attached one, stretches of every mode in blocks of random order, all in one run
/// of the engine and the load. Nothing else should run on the machine. Stops in good order when
/// `limit_s` seconds are over; what is missing then, or because a start failed, is noted. Throws
/// UnavailableError (an engine is absent), DeviceError (every start failed), Error when
/// interrupted.
OverheadMeasures MeasureOverhead(
    const OverheadConfig& config, const std::filesystem::path& scratch, double limit_s,
    const std::function<void(double seconds, const std::string& note)>& progress);

}  // namespace teller::experiment
