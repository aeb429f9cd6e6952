#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace teller::cluster {

/// Kinds of change that may outlive a killed runner (docs/schema/journal.md).
enum class Change {
  kFolder,   ///< a folder 'teller-*' in /dev/shm; undone by removal
  kProcess,  ///< a process we started, by pid; undone by ending it and its descendants
  kStopped,  ///< a process that may be stopped, by pid; undone by SIGCONT
  kNetwork,  ///< a network namespace, by inode; processes in it that see the run's folder are ended
  kCollection,  ///< records of a collection in its spool folder; undone by writing the trace file
  kCgroup       ///< a cgroup folder 'teller-*'; undone by moving its processes up and removing it
};

std::string_view ChangeName(Change change);  ///< 'folder', 'process', ...

/// What this runner changes on the machine, written and synced before each change, so that a later
/// start or `teller restore` can undo it. One file per owner in StateFolder()/journal, removed when
/// the owner ends in order. Thread-safe.
class Journal {
 public:
  /// Throws ConfigError (see CheckRunId), DeviceError where the state folder cannot be written.
  explicit Journal(const std::string& run_id);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Call before the change. `start_ticks` of a process tells a reused pid. The line is synced to
  /// disk, which may take long where others write; one that stands there already costs nothing.
  /// Throws DeviceError.
  void Record(Change change, std::string_view what, uint64_t start_ticks = 0);
  void RecordProcess(Change change, pid_t pid);
  const std::filesystem::path& path() const { return path_; }
  /// The file stays at the end: something could not be undone in order.
  void Keep() { keep_ = true; }

 private:
  void Append(const std::string& line);

  std::filesystem::path path_;
  int fd_ = -1;
  bool keep_ = false;
  std::mutex mutex_;  // guards what follows, and fd_: lines are written whole
  std::set<std::string> lines_;
};

/// Throws ConfigError where `run_id` is not 1 to 64 letters, digits, '-', '_' or '.', or begins
/// with a dot: it becomes part of paths and names.
void CheckRunId(const std::string& run_id);

/// $TELLER_STATE_DIR, else /var/lib/teller for root, else $XDG_STATE_HOME/teller, else
/// ~/.local/state/teller, else /tmp/teller-state-UID.
std::filesystem::path StateFolder();

}  // namespace teller::cluster
