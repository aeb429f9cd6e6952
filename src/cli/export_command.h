#pragma once

#include <string>

#include "src/cli/command_line.h"

namespace teller::cli {

struct ExportCommandOptions {
  std::string trace;
  std::string steps;
  std::string format;
  std::string output;
  bool force = false;
  bool json = false;
};

void AddExportCommand(CLI::App& app);

/// Exports a trace and prints how much was written and what the format could not hold.
void RunExport(const ExportCommandOptions& options);

}  // namespace teller::cli
