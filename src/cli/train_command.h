#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct TrainCommandOptions {
  std::string request;  ///< a JSON file; stands for all that follow but `force` and `json`
  std::vector<std::string> train, validation;
  std::string output;
  std::string config;
  std::vector<std::string> set;
  int64_t seed = 0;
  bool force = false;
  bool json = false;
};

void AddTrainCommand(CLI::App& app);

/// Trains a model and prints what it was trained on. Ctrl-C stops cleanly; the same command goes on
/// from the checkpoint.
void RunTrain(const TrainCommandOptions& options);

}  // namespace teller::cli
