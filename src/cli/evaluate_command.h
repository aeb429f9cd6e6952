#pragma once

#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct EvaluateCommandOptions {
  std::string model;
  std::vector<std::string> tokens;
  std::string output;
  std::string method = "teller";
  bool force = false;
};

void AddEvaluateCommand(CLI::App& app);

/// Runs a trained model over every step of encoded runs and writes predictions.h5.
void RunEvaluate(const EvaluateCommandOptions& options);

}  // namespace teller::cli
