#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/experiment/cell.h"
#include "src/experiment/executor.h"
#include "src/experiment/pipeline.h"

namespace teller::experiment {

struct RunExperimentOptions {
  std::filesystem::path config;        ///< experiments/NAME.yaml
  std::vector<std::string> overrides;  ///< key.key=value
  std::string scale;                   ///< under `scales:`; empty: the file as it is
  std::filesystem::path output;        ///< results folder; empty: results/NAME
  int jobs = 2;
};

/// One line of --dry-run: all stages of a kind.
struct StageSummary {
  std::string kind;
  int stages = 0;
  int cached = 0;
  double open_cost_s = 0;  ///< of what is not cached
  bool exclusive = false;
};

/// What would be done: nothing is made, taken or checked but the configuration.
struct DryRun {
  std::string experiment;
  std::filesystem::path folder;
  std::vector<StageSummary> kinds;
  struct Line {
    std::string kind, name, key;  ///< key empty: inputs are not there yet
    bool cached = false;
    double cost_s = 0;
  };
  std::vector<Line> stages;
  double open_cost_s = 0;  ///< on the wall, with `jobs` side by side where allowed
};
DryRun PlanExperiment(const RunExperimentOptions& options);

/// What a run left.
struct ExperimentResult {
  MetricsFile metrics;
  std::filesystem::path folder;
  std::filesystem::path report;  ///< report.html
  int made = 0;                  ///< stages that ran now
  int cached = 0;
};
/// Runs what is not cached, then writes metrics.json, the tables, the figure and report.html into
/// the results folder. Throws teller::Error; finished work is kept.
ExperimentResult RunExperiment(const RunExperimentOptions& options);

/// The stored results of an experiment, their cells marked stale where the configuration, the code
/// versions or an input changed since. Throws DataError where the experiment was never run, saying
/// what to run.
ExperimentResult LoadResults(const RunExperimentOptions& options);

/// A run of a campaign that is recorded and labelled.
struct FinishedRun {
  std::string name;             ///< 'run03'
  std::filesystem::path steps;  ///< its steps.h5
  std::string role;             ///< 'train', 'validation' or 'test', by the experiment's split
  uint64_t seed = 0;
  std::string config_hash;
};
/// The runs of an experiment's campaign. Throws ConfigError where it has none, DataError where one
/// is not recorded yet.
std::vector<FinishedRun> FinishedRuns(const RunExperimentOptions& options);

}  // namespace teller::experiment
