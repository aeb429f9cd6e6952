#include "src/cluster/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/cluster/boot.h"
#include "src/cluster/process_table.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::cluster {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailJournal(const fs::path& path, int error) {
  throw DeviceError(fmt::format("journal {}: {}; set TELLER_STATE_DIR to a folder you may write",
                                path.string(), std::strerror(error)));
}

std::string OwnerLine(const std::string& run_id) {
  const auto self = ReadProcessStat(getpid());
  TELLER_CHECK(self.has_value());
  const nlohmann::json line = {{"schema_version", "1.0"},
                               {"run_id", run_id},
                               {"owner", getpid()},
                               {"start_ticks", self->start_ticks},
                               {"boot_id", BootId()}};
  return line.dump() + "\n";
}

void WriteSynced(int fd, const std::string& text, const fs::path& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) FailJournal(path, errno);
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(fd) != 0 && errno != EINVAL) FailJournal(path, errno);
}

}  // namespace

std::string_view ChangeName(Change change) {
  switch (change) {
    case Change::kFolder:
      return "folder";
    case Change::kProcess:
      return "process";
    case Change::kStopped:
      return "stopped";
    case Change::kNetwork:
      return "network";
    case Change::kCollection:
      return "collection";
    case Change::kCgroup:
      return "cgroup";
  }
  return "unknown";
}

void CheckRunId(const std::string& run_id) {
  const bool plain = !run_id.empty() && run_id.size() <= 64 && run_id.front() != '.' &&
                     std::all_of(run_id.begin(), run_id.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                     });
  if (!plain) {
    throw ConfigError(
        fmt::format("run id '{}': 1 to 64 letters, digits, '-', '_' or '.' are expected", run_id));
  }
}

fs::path StateFolder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string folder = variable("TELLER_STATE_DIR"); !folder.empty()) return folder;
  if (geteuid() == 0) return "/var/lib/teller";
  if (const std::string folder = variable("XDG_STATE_HOME"); !folder.empty()) {
    return fs::path(folder) / "teller";
  }
  const std::string home = variable("HOME");
  if (!home.empty() && access(home.c_str(), W_OK) == 0) {
    return fs::path(home) / ".local" / "state" / "teller";
  }
  return fmt::format("/tmp/teller-state-{}", geteuid());
}

Journal::Journal(const std::string& run_id) {
  CheckRunId(run_id);
  const fs::path folder = StateFolder() / "journal";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) FailJournal(folder, error.value());
  path_ = folder / fmt::format("{}.{}.jsonl", run_id, getpid());
  // The owner's line is there before the name is, so that nobody ever sees a journal without one.
  const fs::path temporary = folder / fmt::format(".{}.{}.partial", run_id, getpid());
  fd_ = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fd_ < 0) FailJournal(temporary, errno);
  WriteSynced(fd_, OwnerLine(run_id), temporary);
  if (rename(temporary.c_str(), path_.c_str()) != 0) FailJournal(path_, errno);
}

Journal::~Journal() {
  close(fd_);
  if (keep_) {
    LogWarning(
        fmt::format("some changes could not be undone; run 'teller restore' ({})", path_.string()));
    return;
  }
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void Journal::Append(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (lines_.contains(line)) return;
  WriteSynced(fd_, line, path_);
  lines_.insert(line);
}

void Journal::Record(Change change, std::string_view what, uint64_t start_ticks) {
  const nlohmann::json line = {
      {"change", ChangeName(change)}, {"what", what}, {"start_ticks", start_ticks}};
  Append(line.dump() + "\n");
}

void Journal::RecordProcess(Change change, pid_t pid) {
  const auto stat = ReadProcessStat(pid);
  if (stat) Record(change, std::to_string(pid), stat->start_ticks);
}

}  // namespace teller::cluster
