#include "src/collect/running_sessions.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cerrno>

#include "src/abi/control_file.h"
#include "src/collect/pool_reader.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr std::string_view kPrefix = "teller-";

bool Lives(uint32_t pid) {
  return pid != 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

std::vector<trace::ProcessInfo> LiveProcesses(const std::filesystem::path& run_dir) {
  std::vector<trace::ProcessInfo> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, error)) {
    if (entry.path().extension() != ".pool" || !PoolReader::IsReady(entry.path())) continue;
    try {
      const PoolReader pool(entry.path());
      if (!pool.ProcessIsGone()) processes.push_back(pool.Info());
    } catch (const DataError&) {  // retired in this moment
    }
  }
  return processes;
}

}  // namespace

std::vector<RunningSession> FindRunningSessions() {
  std::vector<RunningSession> sessions;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
    const std::string name = entry.path().filename().string();
    TellerControl* control = nullptr;
    if (!name.starts_with(kPrefix) || teller_control_map(entry.path().c_str(), 0, &control) != 0)
      continue;
    const RunningSession session{entry.path(), name.substr(kPrefix.size()),
                                 static_cast<Level>(control->level), control->owner_pid,
                                 LiveProcesses(entry.path())};
    teller_control_unmap(control);
    if (Lives(session.owner_pid)) sessions.push_back(session);
  }
  std::sort(sessions.begin(), sessions.end(),
            [](const auto& a, const auto& b) { return a.run_id < b.run_id; });
  return sessions;
}

RunningSession FindRunningSession(const std::string& run_id) {
  std::vector<RunningSession> sessions = FindRunningSessions();
  if (!run_id.empty()) {
    std::erase_if(sessions,
                  [&](const RunningSession& session) { return session.run_id != run_id; });
  }
  if (sessions.empty()) {
    throw ConfigError(
        run_id.empty()
            ? std::string("no collection runs here (none in /dev/shm); start one with 'teller "
                          "collect -- COMMAND'")
            : fmt::format("no collection '{}' runs here; leave --run-id out to see the others",
                          run_id));
  }
  if (sessions.size() == 1) return sessions[0];
  std::string ids;
  for (const RunningSession& session : sessions) ids += " " + session.run_id;
  throw ConfigError(
      fmt::format("{} collections run here:{}; choose one with --run-id", sessions.size(), ids));
}

void SetRunningLevel(const RunningSession& session, Level level) {
  TellerControl* control = nullptr;
  const int error = teller_control_map(session.run_dir.c_str(), 1, &control);
  if (error != 0) {
    throw DeviceError(fmt::format("{}: cannot change the control block: {}",
                                  session.run_dir.string(), strerror(error)));
  }
  teller_control_set_level(control, static_cast<uint32_t>(level));
  teller_control_unmap(control);
}

}  // namespace teller::collect
