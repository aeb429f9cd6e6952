#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "src/cluster/cluster.h"
#include "src/experiment/experiment_config.h"
#include "src/workload/launch/workload.h"

namespace teller::experiment {

/// The load generator on the endpoint's node; ends with its summary when it is asked to.
class LoadProcess {
 public:
  /// Starts it: requests go to `output` (docs/schema/run_folder.md), its own words into
  /// `log_folder`.
  LoadProcess(const LoadConfig& config, const launch::Endpoint& endpoint, cluster::Cluster& cluster,
              uint64_t seed, const std::filesystem::path& output,
              const std::filesystem::path& log_folder);

  /// Throws DeviceError, with its last words, where it has ended.
  void CheckRunning();
  void Stop();

 private:
  std::filesystem::path errors_;
  std::unique_ptr<cluster::Process> process_;
};

}  // namespace teller::experiment
