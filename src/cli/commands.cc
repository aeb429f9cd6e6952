#include "src/cli/commands.h"

namespace teller::cli {

void AddCommands(CLI::App& app, int& exit_code) {
  (void)app;
  (void)exit_code;
}

}  // namespace teller::cli
