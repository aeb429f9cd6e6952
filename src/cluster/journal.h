#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace teller::cluster {

/// Kinds of change that outlive a killed runner (docs/schema/journal.md).
enum class Change {
  kFolder,   ///< a folder in /dev/shm; undone by removal
  kProcess,  ///< a process we started; undone by SIGKILL
  kStopped,  ///< a process that may be stopped; undone by SIGCONT
  kNetwork,  ///< a network namespace, by inode: processes in it are ended
  kCgroup,   ///< a cgroup folder; undone by moving its processes up and rmdir
};

/// What this runner changes on the machine, written and synced before each change, so that a later
/// start or `teller restore` can undo it. One file per owner in StateFolder()/journal, removed when
/// the owner ends in order. Thread-safe.
class Journal {
 public:
  /// Throws DeviceError where the state folder cannot be written.
  explicit Journal(const std::string& run_id);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Call before the change. `start_ticks` tells a reused pid or inode.
  void Record(Change change, std::string_view what, uint64_t start_ticks = 0);
  const std::filesystem::path& path() const { return path_; }
  /// The file stays: something could not be undone in order.
  void Keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool keep_ = false;
  std::mutex mutex_;
};

/// $TELLER_STATE_DIR, else /var/lib/teller for root, else $XDG_STATE_HOME/teller, else
/// ~/.local/state/teller.
std::filesystem::path StateFolder();

}  // namespace teller::cluster
