#pragma once

#include "src/cli/command_line.h"

namespace teller::cli {

struct RestoreOptions {
  bool dry_run = false;
  bool json = false;
};

/// `teller restore`: undoes what runners that were killed have left on this machine.
void AddRestoreCommand(CLI::App& app);
/// Prints what was found and done. Throws DeviceError where something could not be undone.
void RunRestore(const RestoreOptions& options);

}  // namespace teller::cli
