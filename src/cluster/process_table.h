#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace teller::cluster {

/// What /proc/PID/stat says of a process.
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  ///< 'R', 'S', 'D', 'T' (stopped), 'Z' (ended, not reaped), ...
  uint64_t start_ticks =
      0;               ///< since boot, in clock ticks: with the pid it names a process for good
  int64_t cpu_ns = 0;  ///< used so far by all its threads, in steps of a clock tick (10 ms)
  std::string comm;
};

/// Nothing where there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

/// True while that very process runs: not reaped, not a zombie, not a later owner of the pid.
bool IsAlive(pid_t pid, uint64_t start_ticks);

/// True while a process that still counts as alive is being killed, or is on its way out.
bool IsEnding(pid_t pid);

/// Live descendants of a process, parents before children; zombies and the process itself are left
/// out.
std::vector<pid_t> Descendants(pid_t root);

/// The same within a table that was read process by process: where pids were reused meanwhile,
/// parents may form a circle, and each process is still named once.
std::vector<pid_t> DescendantsIn(std::span<const ProcessStat> table, pid_t root);

/// Inode of a namespace of a process ('net', 'mnt', ...); 0 where it cannot be read.
uint64_t NamespaceInode(pid_t pid, const char* kind);

/// Time a thread of a process has waited for a processor so far; 0 where it cannot be read.
int64_t RunQueueWaitNs(pid_t pid, pid_t thread);

/// The threads of a process that have used most processor time, at most `count`, the busiest first.
std::vector<pid_t> BusiestThreads(pid_t pid, std::size_t count);

/// Processors that a process or thread may run on; empty where it is gone.
std::vector<int> ProcessorsOf(pid_t pid);

/// Keeps the calling thread on one processor; false where that is refused.
bool BindToProcessor(int cpu);

/// Every pid of the machine.
std::vector<pid_t> AllProcesses();

}  // namespace teller::cluster
