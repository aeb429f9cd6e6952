#pragma once

#include "src/cli/command_line.h"

namespace teller::cli {

/// Adds every subcommand. Each runs from its CLI11 callback, throws teller::Error, and may set
/// `exit_code` (for example to the code of the command it ran).
void AddCommands(CLI::App& app, int& exit_code);

}  // namespace teller::cli
