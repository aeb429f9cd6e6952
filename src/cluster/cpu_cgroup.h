#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/cluster/journal.h"

namespace teller::cluster {

/// A cgroup of the run's own with a processor quota, version 2 where its cpu controller is there,
/// else version 1. Journalled; at the end its processes go back to where they were and it is
/// removed.
class CpuCgroup {
 public:
  /// Empty, or why a quota cannot be set here: 'no root', 'no cpu controller', ...
  static std::string WhyUnavailable();
  /// Writes a cgroup of that name into the journal ahead of making it, which then need not wait for
  /// the disk. Throws UnavailableError, DeviceError.
  static void Announce(const std::string& run_id, const std::string& name, Journal& journal);
  /// Throws UnavailableError (see WhyUnavailable), DeviceError.
  CpuCgroup(const std::string& run_id, const std::string& name, Journal& journal);
  ~CpuCgroup();
  CpuCgroup(const CpuCgroup&) = delete;
  CpuCgroup& operator=(const CpuCgroup&) = delete;

  /// Moves a process with all its threads in. Throws DeviceError.
  void Add(pid_t pid);
  /// At most `quota_us` of processor time in each `period_us`; both at least 1000. Throws
  /// DeviceError.
  void SetQuota(int64_t quota_us, int64_t period_us);
  /// Time its processes were kept from running, all processors together, counted when they may run
  /// again.
  int64_t ThrottledNs() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool version2_ = false;
  Journal& journal_;
  std::vector<std::pair<pid_t, std::filesystem::path>> origins_;  // of the processes moved in
};

}  // namespace teller::cluster
