#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct RunOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string scale;
  std::filesystem::path output;
  int jobs = 2;
  bool dry_run = false;
  bool json = false;
};

void AddRunCommand(CLI::App& app);
/// Runs an experiment and prints its tables, or lists its stages. Throws teller::Error.
void RunRun(const RunOptions& options);

}  // namespace teller::cli
