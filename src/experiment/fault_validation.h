#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/experiment/cell.h"
#include "src/experiment/fault_effects.h"

namespace teller::experiment {

/// The validation table: cells of F1 (by kind and level), F2 (placebos) and F3 (what must hold).
/// Intervals are bootstraps over stretches.
std::vector<Cell> FaultCells(std::span<const StretchEffect> stretches);

/// Cells of F4: each configuration fault against the healthy restarts of its engine, medians over
/// runs of the runs' medians.
std::vector<Cell> ConfigurationCells(std::span<const WholeRun> runs);

/// The stage from runs and their steps (in the same order) to metrics.json.
void ValidateFaults(std::span<const std::filesystem::path> run_folders,
                    std::span<const std::filesystem::path> steps_files,
                    const std::string& experiment, const std::string& config_hash,
                    const std::filesystem::path& output);

}  // namespace teller::experiment
