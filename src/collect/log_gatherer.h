#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/collect/line_spool.h"
#include "src/collect/log_follower.h"

namespace teller::collect {

/// The thread that follows log files and spools their lines. The kernel wakes it when one of them
/// changes (a look every 20 ms besides), so a line is stamped within about a millisecond of being
/// written.
class LogGatherer {
 public:
  explicit LogGatherer(const std::filesystem::path& spool_file);
  ~LogGatherer();
  LogGatherer(const LogGatherer&) = delete;
  LogGatherer& operator=(const LogGatherer&) = delete;

  /// `name` is what the trace calls the file. It may appear late.
  void AddFile(const std::string& node, const std::string& name, const std::filesystem::path& path,
               const LogFollower::Options& options = {});
  /// Follows every file that matches a shell pattern, now or later, under its path. Of those that
  /// are there already only what comes from now on.
  void AddPattern(const std::string& pattern);

  /// Ends the thread after a last look. Afterwards the lines may be read.
  void Stop();
  LineSpool& lines() { return lines_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t cpu_ns() const { return cpu_ns_; }

 private:
  struct FollowedFile {
    std::string node, name;
    std::filesystem::path path;
    std::unique_ptr<LogFollower> follower;
    std::pair<uint64_t, uint64_t> watched = {};  ///< Identity of the file that wakes us
  };

  void Run();
  void WatchFolderOf(const std::filesystem::path& path);
  void WatchContent(FollowedFile& file);
  void FindFiles(bool from_end);
  void Follow(bool finish);
  /// Until a file changes, at most for `timeout_ms`.
  void WaitForChange(int timeout_ms);

  LineSpool lines_;   ///< of the thread alone until Stop
  std::mutex mutex_;  ///< guards files_, patterns_ and known_; held by the thread while it reads
  std::vector<FollowedFile> files_;
  std::vector<std::string> patterns_;
  std::set<std::string> known_paths_;
  std::set<std::pair<uint64_t, uint64_t>> known_files_;  ///< a rotated file keeps its inode
  std::atomic<uint64_t> bytes_{0};
  int changes_ = -1;  ///< inotify; -1 where the kernel gives none
  int stop_pipe_[2] = {-1, -1};
  std::atomic<bool> stopping_{false};
  int64_t cpu_ns_ = 0;
  std::thread thread_;
};

}  // namespace teller::collect
