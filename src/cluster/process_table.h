#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace teller::cluster {

/// What /proc/PID/stat says of a process.
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  ///< 'R', 'S', 'D', 'T' (stopped), 'Z' (ended, not reaped), ...
  uint64_t start_ticks =
      0;  ///< since boot, in clock ticks: with the pid it names a process for good
  std::string comm;
};

/// Nothing where there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

/// True while that very process runs: not reaped, not a zombie, not a later owner of the pid.
bool IsAlive(pid_t pid, uint64_t start_ticks);

/// Live descendants of a process, parents before children; zombies and the process itself are left
/// out.
std::vector<pid_t> Descendants(pid_t root);

/// Inode of a namespace of a process ('net', 'mnt', ...); 0 where it cannot be read.
uint64_t NamespaceInode(pid_t pid, const char* kind);

/// Every pid of the machine.
std::vector<pid_t> AllProcesses();

}  // namespace teller::cluster
