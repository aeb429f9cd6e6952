#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/experiment/data_set.h"
#include "src/experiment/run_experiment.h"

namespace teller::experiment {

/// Forests that a published set keeps of each role, over all its runs (docs/protocol.md, section
/// 2).
struct PublishBudget {
  int64_t train = 1600, validation = 500, test = 1200;
  int64_t held_out = 800;       ///< of each held-out set
  int64_t healthy_pool = 4000;  ///< healthy steps of test runs, beside those of `test`
  int64_t calibration = 40;     ///< of a run
};

struct PublishOptions {
  std::vector<RunExperimentOptions> experiments;  ///< recorded; their splits give the roles
  std::vector<std::pair<std::string, RunExperimentOptions>> held_out;  ///< name of the set
  std::filesystem::path output = "datasets/published";
  PublishBudget budget;
};

/// Packs the finished runs of experiments into a folder with a manifest. Throws ConfigError where
/// the folder is not empty or a run is not recorded yet.
PublishedSet Publish(const PublishOptions& options);

}  // namespace teller::experiment
