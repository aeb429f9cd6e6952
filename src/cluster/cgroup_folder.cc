#include "src/cluster/cgroup_folder.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

namespace teller::cluster {
namespace {

namespace fs = std::filesystem;

void MoveProcessesUp(const fs::path& path) {
  std::ifstream members(path / "cgroup.procs");
  std::vector<std::string> pids;
  for (std::string pid; std::getline(members, pid);) pids.push_back(pid);
  for (const std::string& pid : pids) {
    std::ofstream(path.parent_path() / "cgroup.procs") << pid << std::flush;
  }
}

}  // namespace

bool IsOwnCgroup(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  if (!normal.string().starts_with("/sys/fs/cgroup/")) return false;
  for (const fs::path& part : normal) {
    if (part.string().starts_with("teller-")) return true;
  }
  return false;
}

std::string RemoveCgroup(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> below;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory(error)) below.push_back(entry.path());
  }
  for (const fs::path& child : below) RemoveCgroup(child);
  // A process that is just ending keeps the cgroup busy for a moment.
  for (int attempt = 0; attempt < 100; ++attempt) {
    MoveProcessesUp(path);
    if (rmdir(path.c_str()) == 0 || errno == ENOENT) return "";
    if (errno != EBUSY) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::strerror(errno);
}

}  // namespace teller::cluster
