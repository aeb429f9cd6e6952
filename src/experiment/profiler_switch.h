#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "src/cluster/cluster.h"
#include "src/workload/launch/workload.h"

namespace teller::experiment {

/// Switches the torch profiler of a running engine, to measure what it costs.
class ProfilerSwitch {
 public:
  /// For processes that link torch and have no such switch: a library that is preloaded into them
  /// and watches a shared word. Throws UnavailableError where it is not built.
  static std::unique_ptr<ProfilerSwitch> Preloaded(const std::filesystem::path& run_dir,
                                                   int processes);
  /// vLLM's own: POST /start_profile and /stop_profile; what it writes into `folder` is removed.
  static std::unique_ptr<ProfilerSwitch> Http(cluster::Cluster& cluster,
                                              const launch::Endpoint& endpoint,
                                              const std::filesystem::path& folder);
  virtual ~ProfilerSwitch() = default;

  /// Returns when every process has switched. Throws DeviceError when one does not in a minute.
  virtual void Set(bool on) = 0;
  /// Variables that a process needs, over `environment`.
  virtual void AddTo(std::map<std::string, std::string>& environment) const = 0;
};

}  // namespace teller::experiment
