#include "src/cluster/process_table.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

namespace teller::cluster {
namespace {

/// The entries of a folder of /proc that are numbers.
std::vector<pid_t> Numbers(const char* path) {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path), closedir);
  if (!folder) return pids;
  while (const dirent* entry = readdir(folder.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) {
      pids.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
    }
  }
  return pids;
}

/// The two first numbers of a thread's schedstat: time on a processor, time waiting for one.
std::pair<int64_t, int64_t> ReadSchedstat(pid_t pid, pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) +
                     "/schedstat");
  int64_t run_ns = 0, wait_ns = 0;
  file >> run_ns >> wait_ns;
  return {run_ns, wait_ns};
}

}  // namespace

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The name stands in parentheses and may itself hold any character, so the last ')' ends it.
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat;
  stat.pid = pid;
  stat.comm = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  rest >> stat.state >> stat.parent;
  std::string skipped;
  int64_t user_ticks = 0, system_ticks = 0;
  for (int field = 5; field < 14; ++field) rest >> skipped;
  rest >> user_ticks >> system_ticks;
  for (int field = 16; field < 22; ++field) rest >> skipped;
  rest >> stat.start_ticks;
  stat.cpu_ns = (user_ticks + system_ticks) * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  if (!rest) return std::nullopt;
  return stat;
}

bool IsAlive(pid_t pid, uint64_t start_ticks) {
  const auto stat = ReadProcessStat(pid);
  return stat && stat->start_ticks == start_ticks && stat->state != 'Z' && stat->state != 'X';
}

std::vector<pid_t> AllProcesses() { return Numbers("/proc"); }

std::vector<pid_t> DescendantsIn(std::span<const ProcessStat> table, pid_t root) {
  std::vector<pid_t> found, frontier{root};
  std::set<pid_t> seen{root};
  while (!frontier.empty()) {
    const pid_t parent = frontier.back();
    frontier.pop_back();
    for (const ProcessStat& stat : table) {
      if (stat.parent != parent || !seen.insert(stat.pid).second) continue;
      frontier.push_back(stat.pid);
      if (stat.state != 'Z' && stat.state != 'X') found.push_back(stat.pid);
    }
  }
  return found;
}

std::vector<pid_t> Descendants(pid_t root) {
  std::vector<ProcessStat> table;
  for (const pid_t pid : AllProcesses()) {
    if (auto stat = ReadProcessStat(pid)) table.push_back(std::move(*stat));
  }
  return DescendantsIn(table, root);
}

int64_t RunQueueWaitNs(pid_t pid, pid_t thread) { return ReadSchedstat(pid, thread).second; }

std::vector<pid_t> BusiestThreads(pid_t pid, std::size_t count) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::vector<std::pair<int64_t, pid_t>> threads;
  for (const pid_t thread : Numbers(folder.c_str())) {
    threads.emplace_back(-ReadSchedstat(pid, thread).first, thread);
  }
  std::sort(threads.begin(), threads.end());
  if (threads.size() > count) threads.resize(count);
  std::vector<pid_t> busiest;
  for (const auto& [run_ns, thread] : threads) busiest.push_back(thread);
  return busiest;
}

std::vector<int> ProcessorsOf(pid_t pid) {
  cpu_set_t set;
  std::vector<int> processors;
  if (sched_getaffinity(pid, sizeof set, &set) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) processors.push_back(cpu);
  }
  return processors;
}

bool BindToProcessor(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool IsEnding(pid_t pid) {
  constexpr uint64_t kKillBit = uint64_t{1} << (9 - 1);  // SIGKILL in a mask of signals
  constexpr uint64_t kExiting = 0x4;                     // PF_EXITING of the kernel
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    const bool pending = line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    if (pending && (std::strtoull(line.c_str() + 7, nullptr, 16) & kKillBit) != 0) return true;
  }
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line, skipped;
  std::getline(stat, line);
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  for (int field = 3; field < 9; ++field) rest >> skipped;
  uint64_t flags = 0;
  rest >> flags;
  return (flags & kExiting) != 0;
}

uint64_t NamespaceInode(pid_t pid, const char* kind) {
  struct stat status = {};
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/" + kind;
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace teller::cluster
