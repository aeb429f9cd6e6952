#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/reconstruct/step_forest.h"

namespace teller::dataset {

/// Per-step numbers that a model or a baseline may see: free of labels, absolute time, step index
/// and ids (docs/protocol.md, section 3). docs/numbers.md lists them; all runs have the same
/// columns. Times are log((ns + 10 us) / (median + 10 us)) against the median of the run's
/// calibration steps of that phase and batch bucket, by position of the rank.
struct StepNumbers {
  std::vector<std::string> names;
  std::vector<std::vector<float>> rows;  ///< by step
};

/// @param calibration  by step: in the run's calibration window; where none is, all steps serve
StepNumbers ComputeStepNumbers(std::span<const reconstruct::StepForest> steps,
                               const std::vector<bool>& calibration);

}  // namespace teller::dataset
