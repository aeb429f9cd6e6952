#pragma once

#include <string>
#include <vector>

#include "src/experiment/experiment_config.h"
#include "src/experiment/stage.h"

namespace teller::experiment {

/// An experiment as a plan, with the stages that a caller asks about.
struct Pipeline {
  Plan plan;
  std::vector<StageId> runs;    ///< campaign runs, empty where steps were given
  std::vector<StageId> steps;   ///< by run
  std::vector<StageId> models;  ///< trainings
  StageId metrics{};            ///< the last stage: metrics.json
};

/// Expected seconds of a stage kind, from finished ones; nothing where none is.
using CostHistory = std::function<std::optional<double>(const std::string& kind)>;

/// Which runs of an experiment train, choose thresholds and test: indices, each ascending.
struct RunRoles {
  std::vector<std::size_t> train, validation, test;

  /// Training runs, then validation, then test: the order in which later stages get their inputs.
  std::vector<std::size_t> InOrder() const;
  /// 'train', 'validation' or 'test'.
  std::string RoleOf(std::size_t run) const;
};

/// Draws the roles of `runs` runs; those of a published data set stand in its manifest. Throws
/// ConfigError where a part would be empty.
RunRoles AssignRoles(const ExperimentConfig& config, std::size_t runs);

/// Throws ConfigError, or UnavailableError where something the experiment needs is absent.
Pipeline BuildPipeline(const ExperimentConfig& config, const CostHistory& history);

}  // namespace teller::experiment
