#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct InjectOptions {
  std::filesystem::path plan;
  std::vector<std::string> overrides;
  std::optional<int> target;  ///< pid of a process that runs already
  std::string cgroup;         ///< all processes of a cgroup: its path below /sys/fs/cgroup
  std::string node;           ///< all processes of a network namespace: its name, or a pid in it
  std::vector<std::string> command;
  std::filesystem::path output = "truth.jsonl";
  uint64_t seed = 1;
  int run = 0;  ///< which run of the schedule's campaign
  bool any_user = false;
  bool dry_run = false;
  bool json = false;
  bool force = false;
};

/// `teller inject PLAN.yaml [--target PID | --cgroup PATH | --node NAME] [-- COMMAND]`: perturbs
/// processes by a schedule, also without a collector. Processes of a cgroup or node are the plan's
/// ranks, in order of their pids.
void AddInjectCommand(CLI::App& app, int& exit_code);
/// @return the program's exit code: that of COMMAND once it has started, 125 for our own failure
/// then, 126 / 127 where it
///         could not be started or was not found
int RunInject(const InjectOptions& options);

}  // namespace teller::cli
