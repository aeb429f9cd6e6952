#pragma once

#include <filesystem>

#include "src/cli/command_line.h"

namespace teller::cli {

struct InfoOptions {
  std::filesystem::path file;
  bool check = false;
  bool json = false;
};

/// `teller info FILE`: what a file of ours holds. The file is read in a child process with limits.
void AddInfoCommand(CLI::App& app, int& exit_code);

/// Prints to stdout. Throws DataError (missing, foreign, damaged) and, with `check`, CheckError
/// (incomplete, events that end before they begin).
void RunInfo(const InfoOptions& options);

}  // namespace teller::cli
