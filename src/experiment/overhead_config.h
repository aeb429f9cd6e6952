#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"

namespace teller::experiment {

/// How a stretch of a run is watched.
enum class WatchMode { kNotAttached, kOff, kRanges, kFull, kProfiler };

/// 'not attached', 'off', 'ranges', 'full', 'torch profiler'.
std::string WatchModeName(WatchMode mode);

/// One workload of an overhead experiment.
struct OverheadWorkload {
  std::string name;
  config::Node workload;  ///< read by src/workload/launch
  std::vector<int64_t> concurrency = {1, 8};
  int starts = 2;          ///< of the engine attached, and as many not attached
  int blocks = 8;          ///< a start and concurrency; each holds a stretch of every mode
  double stretch_s = 1.5;  ///< with the settling time
  double start_s = 5;      ///< what starting and stopping takes, for the estimate
  std::vector<WatchMode> modes = {WatchMode::kOff, WatchMode::kRanges, WatchMode::kFull,
                                  WatchMode::kProfiler};
  std::vector<std::string> load;  ///< further options of teller-load
};

/// experiments/tracing_overhead.yaml: E9 (docs/overhead.md).
struct OverheadConfig {
  std::string name;
  std::string question;
  uint64_t seed = 1;
  double settle_s = 0.15;  ///< of a stretch, after the switch, that does not count
  std::vector<OverheadWorkload> workloads;
  std::string canonical;  ///< of the whole file, for its hash

  /// Seconds on the wall that it takes.
  double EstimatedSeconds() const;
  /// Leaves out all workloads but one. Throws ConfigError where there is none of that name.
  void KeepOnly(const std::string& workload);
  /// Lessens the blocks, each workload's in the same proportion and to no less than 3, until the
  /// estimate is under `seconds`.
  void FitInto(double seconds);
};

/// @param profiler_folder  where vLLM's torch profiler writes (absolute)
/// @throws ConfigError with file, line and column
OverheadConfig LoadOverhead(const std::filesystem::path& path,
                            std::span<const std::string> overrides,
                            const std::filesystem::path& profiler_folder);

}  // namespace teller::experiment
