#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/collect/session.h"

namespace teller::collect {

/// A collection that runs on this machine now.
struct RunningSession {
  std::filesystem::path run_dir;
  std::string run_id;
  Level level;
  uint32_t owner_pid;
  std::vector<trace::ProcessInfo> processes;
};

/// Collections whose run folder is /dev/shm/teller-RUN_ID and whose owner lives, in order of run
/// ids.
std::vector<RunningSession> FindRunningSessions();

/// The one with this run id, or the only one where `run_id` is empty. Throws ConfigError: none, or
/// more than one.
RunningSession FindRunningSession(const std::string& run_id);

/// Switches a running collection.
void SetRunningLevel(const RunningSession& session, Level level);

}  // namespace teller::collect
