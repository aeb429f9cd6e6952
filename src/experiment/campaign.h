#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fault_injection/schedule.h"
#include "src/experiment/experiment_config.h"

namespace teller::experiment {

/// One run of a campaign, decided before it is recorded.
struct RunPlan {
  int index = 0;
  std::string config_yaml;      ///< fully resolved, for config.yaml and the run's hash
  int64_t clock_offset_ns = 0;  ///< of every node but the first
  fault_injection::Plan faults;
  config::Node workload;
  uint64_t load_seed = 0;  ///< matched restarts share it
};

/// The runs of a campaign. The same configuration and seed give the same plans. Throws ConfigError.
std::vector<RunPlan> PlanRuns(const CampaignConfig& campaign);

/// Throws UnavailableError where the engine, the load generator or the agent is absent (exit code
/// 4). Warns where other work keeps the processors busy.
void CheckCampaignAvailable(const CampaignConfig& campaign);

/// Seconds that a run takes on the wall: its plan plus what starting and finishing cost here.
double RunSeconds(const RunPlan& plan);

/// Records one run into `folder` (docs/schema/run_folder.md): nodes, collection, engine, load,
/// faults; stops all in good order and restores the machine on every way out. Throws DeviceError
/// when a rank dies or nothing was recorded, Error when interrupted.
void RecordRun(const CampaignConfig& campaign, const RunPlan& plan, const std::string& run_id,
               const std::filesystem::path& folder,
               const std::function<void(double share, const std::string& note)>& progress);

}  // namespace teller::experiment
