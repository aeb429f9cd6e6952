#pragma once

#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct ImportCommandOptions {
  std::vector<std::string> inputs;
  std::string output;
  bool force = false;
  bool keep_text = false;
  bool json = false;
};

void AddImportCommand(CLI::App& app);

/// Imports and prints what was written: counts of the source and every reason for which a record
/// was not used.
void RunImport(const ImportCommandOptions& options);

}  // namespace teller::cli
