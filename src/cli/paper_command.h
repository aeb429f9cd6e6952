#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct PaperOptions {
  std::vector<std::filesystem::path> experiments;  ///< empty: experiments/quickstart.yaml
  std::vector<std::string> overrides;
  std::string scale;
  std::filesystem::path results;           ///< empty: results/NAME of each
  std::filesystem::path output = "paper";  ///< gets a folder per experiment
  bool json = false;
};

void AddPaperCommand(CLI::App& app, int& exit_code);
/// Turns stored results into tables, figures and a page. Answers the exit code: 3 where a cell is
/// missing or stale.
int RunPaper(const PaperOptions& options);

}  // namespace teller::cli
