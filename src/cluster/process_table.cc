#include "src/cluster/process_table.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

namespace teller::cluster {

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
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> stat.start_ticks;
  if (!rest) return std::nullopt;
  return stat;
}

bool IsAlive(pid_t pid, uint64_t start_ticks) {
  const auto stat = ReadProcessStat(pid);
  return stat && stat->start_ticks == start_ticks && stat->state != 'Z' && stat->state != 'X';
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return pids;
  while (const dirent* entry = readdir(folder.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) {
      pids.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
    }
  }
  return pids;
}

std::vector<pid_t> Descendants(pid_t root) {
  std::vector<ProcessStat> table;
  for (const pid_t pid : AllProcesses()) {
    if (auto stat = ReadProcessStat(pid)) table.push_back(std::move(*stat));
  }
  std::vector<pid_t> found, frontier{root};
  while (!frontier.empty()) {
    const pid_t parent = frontier.back();
    frontier.pop_back();
    for (const ProcessStat& stat : table) {
      if (stat.parent != parent || stat.pid == root) continue;
      frontier.push_back(stat.pid);
      if (stat.state != 'Z' && stat.state != 'X') found.push_back(stat.pid);
    }
  }
  return found;
}

uint64_t NamespaceInode(pid_t pid, const char* kind) {
  struct stat status = {};
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/" + kind;
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace teller::cluster
