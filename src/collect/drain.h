#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/collect/traced_process.h"

namespace teller::collect {

/// The thread that empties pools every 20 ms. It finds new pools in the run folder by itself.
class Drain {
 public:
  Drain(std::filesystem::path run_dir, std::filesystem::path spool_dir);
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  std::vector<trace::ProcessInfo> Processes();
  uint64_t records() const { return records_.load(std::memory_order_relaxed); }

  /// Ends the thread after a last, whole drain. Afterwards the results below may be read.
  void Stop();
  std::vector<TracedProcess>& processes() { return processes_; }
  /// One line each about pools that could not be used.
  const std::vector<std::string>& problems() const { return problems_; }
  int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }

 private:
  void Run();
  void DrainOnce(PoolReader::Depth depth);
  void FindPools();
  void TakeRefusal(const std::filesystem::path& path);
  /// Drains and lets go of pools whose process has ended, so that their memory is free again.
  void RetireEnded();

  std::filesystem::path run_dir_, spool_dir_;
  std::mutex mutex_;  ///< guards processes_ and stopping_; held by the thread while it drains
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<TracedProcess> processes_;
  std::map<std::filesystem::path, bool> known_pools_;  ///< false: seen, not usable
  std::vector<std::string> problems_;
  std::atomic<uint64_t> records_{0};
  std::atomic<int64_t> cpu_ns_{0};
  std::thread thread_;
};

}  // namespace teller::collect
