#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct PublishCommandOptions {
  std::vector<std::filesystem::path> experiments;
  std::vector<std::string> held_out;  ///< NAME=EXPERIMENT
  std::string scale;                  ///< that 'teller run' was given
  std::filesystem::path output = "datasets/published";
  int64_t train = 1600, validation = 500, test = 1200, set = 800, healthy_pool = 4000;
  bool json = false;
};

void AddPublishCommand(CLI::App& app);
/// Packs the recorded runs of experiments into a data set (docs/dataset.md).
void RunPublish(const PublishCommandOptions& options);

}  // namespace teller::cli
