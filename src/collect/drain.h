#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/collect/log_follower.h"
#include "src/collect/pool_reader.h"
#include "src/collect/spool.h"
#include "src/core/ids.h"
#include "src/core/interner.h"

namespace teller::collect {

/// One traced process: its pool while it is there, and its spooled records.
struct TracedProcess {
  std::unique_ptr<PoolReader> pool;
  std::unique_ptr<Spool> spool;
};

/// A line of a followed file, with the file and node it came from.
struct DrainedLine {
  FollowedLine line;
  std::string node;
  std::string file;
};

/// The thread that empties pools and follows logs every 20 ms. It finds new pools in the run folder
/// by itself.
class Drain {
 public:
  Drain(std::filesystem::path run_dir, std::filesystem::path spool_dir);
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  void AddLogFile(const std::string& node, const std::string& name,
                  const std::filesystem::path& path);
  std::vector<trace::ProcessInfo> Processes();
  uint64_t records() const { return records_.load(std::memory_order_relaxed); }

  /// Ends the thread after a last, whole drain. Afterwards the results below may be read.
  void Stop();
  std::vector<TracedProcess>& processes() { return processes_; }
  const std::vector<DrainedLine>& lines() const { return lines_; }
  /// One line each about pools that could not be used.
  const std::vector<std::string>& problems() const { return problems_; }
  int64_t cpu_ns() const { return cpu_ns_; }

 private:
  struct FollowedFile {
    std::string node, name;
    std::unique_ptr<LogFollower> follower;
  };

  void Run();
  void DrainOnce(PoolReader::Depth depth);
  void FindPools();
  void FollowLogs(bool finish);
  /// Drains and lets go of pools whose process has ended, so that their memory is free again.
  void RetireEnded();

  std::filesystem::path run_dir_, spool_dir_;
  std::mutex
      mutex_;  ///< guards processes_, files_ and stopping_; held by the thread while it drains
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<TracedProcess> processes_;
  std::map<std::filesystem::path, bool> known_pools_;  ///< false: seen, not usable
  std::vector<FollowedFile> files_;
  std::vector<DrainedLine> lines_;
  std::vector<std::string> problems_;
  std::atomic<uint64_t> records_{0};
  int64_t cpu_ns_ = 0;
  std::thread thread_;
};

}  // namespace teller::collect
