#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/collect/relay.h"

namespace teller::collect {

/// The command under collection.
class Target {
 public:
  /// Starts argv[0] (searched in PATH) with `environment` over ours. Throws CommandError when it
  /// cannot be executed.
  Target(const std::vector<std::string>& argv,
         const std::map<std::string, std::string>& environment, const RelayPipes& pipes);
  pid_t pid() const { return pid_; }

  /// Waits until the command ends or `timeout_ns` have passed (negative: no limit). Signals that
  /// others send to us are sent on; those of the terminal it gets by itself.
  /// @return the shell's exit code (128 + n for a signal); nothing when the time was over first
  std::optional<int> Wait(int64_t timeout_ns);

 private:
  pid_t pid_ = -1;
};

/// A command that could not be executed: 127 where it is not there, 126 where it may not be
/// executed.
struct CommandError {
  int exit_code;
  std::string message;
};

}  // namespace teller::collect
