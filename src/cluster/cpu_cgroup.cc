#include "src/cluster/cpu_cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "src/cluster/cgroup_folder.h"
#include "src/core/error.h"

namespace teller::cluster {
namespace {

namespace fs = std::filesystem;

bool HasWord(const std::string& text, const std::string& word, char separator) {
  std::istringstream words(text);
  for (std::string found; std::getline(words, found, separator);) {
    if (found == word) return true;
  }
  return false;
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Hierarchy {
  fs::path root;
  bool version2;
};

/// The mounted hierarchy that can limit processor time.
std::optional<Hierarchy> FindHierarchy() {
  std::ifstream mounts("/proc/self/mounts");
  std::optional<Hierarchy> found;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, folder, type, options;
    fields >> device >> folder >> type >> options;
    if (type == "cgroup2" &&
        HasWord(FirstLine(fs::path(folder) / "cgroup.subtree_control"), "cpu", ' ')) {
      return Hierarchy{folder, true};
    }
    if (type == "cgroup" && HasWord(options, "cpu", ',')) found = Hierarchy{folder, false};
  }
  return found;
}

/// An errno value; cgroup files take one write each.
int WriteOnce(const fs::path& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = written ? 0 : errno;
  close(fd);
  return error;
}

void WriteOrFail(const fs::path& path, const std::string& text) {
  if (const int error = WriteOnce(path, text); error != 0) {
    throw DeviceError(
        fmt::format("write '{}' to {}: {}", text, path.string(), std::strerror(error)));
  }
}

/// The cgroup a process is in now.
fs::path CgroupOf(pid_t pid, const Hierarchy& hierarchy) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = hierarchy.version2 ? controllers.empty() : HasWord(controllers, "cpu", ',');
    if (ours) return hierarchy.root / fs::path(line.substr(second + 1)).relative_path();
  }
  return hierarchy.root;
}

/// Throws UnavailableError.
fs::path PathOf(const std::string& run_id, const std::string& name) {
  if (const std::string why = CpuCgroup::WhyUnavailable(); !why.empty()) {
    throw UnavailableError("processor quota: " + why);
  }
  return FindHierarchy()->root / fmt::format("teller-{}-{}", run_id, name);
}

}  // namespace

std::string CpuCgroup::WhyUnavailable() {
  const auto hierarchy = FindHierarchy();
  if (!hierarchy) return "no cgroup hierarchy with the cpu controller";
  if (access(hierarchy->root.c_str(), W_OK) != 0) {
    return fmt::format("{} may not be written (no root)", hierarchy->root.string());
  }
  return "";
}

void CpuCgroup::Announce(const std::string& run_id, const std::string& name, Journal& journal) {
  journal.Record(Change::kCgroup, PathOf(run_id, name).string());
}

CpuCgroup::CpuCgroup(const std::string& run_id, const std::string& name, Journal& journal)
    : journal_(journal) {
  const fs::path path = PathOf(run_id, name);
  version2_ = FindHierarchy()->version2;
  journal.Record(Change::kCgroup, path.string());
  if (mkdir(path.c_str(), 0755) != 0) {
    throw DeviceError(fmt::format("make cgroup {}: {}", path.string(), std::strerror(errno)));
  }
  path_ = path;
}

CpuCgroup::~CpuCgroup() {
  // The limit first, so that nothing is throttled while it is moved.
  WriteOnce(path_ / (version2_ ? "cpu.max" : "cpu.cfs_quota_us"), version2_ ? "max" : "-1");
  for (const auto& [pid, origin] : origins_)
    WriteOnce(origin / "cgroup.procs", std::to_string(pid));
  if (!RemoveCgroup(path_).empty()) journal_.Keep();
}

void CpuCgroup::Add(pid_t pid) {
  const fs::path origin = CgroupOf(pid, *FindHierarchy());
  WriteOrFail(path_ / "cgroup.procs", std::to_string(pid));
  origins_.emplace_back(pid, origin);
}

void CpuCgroup::SetQuota(int64_t quota_us, int64_t period_us) {
  if (version2_) {
    WriteOrFail(path_ / "cpu.max", fmt::format("{} {}", quota_us, period_us));
    return;
  }
  WriteOrFail(path_ / "cpu.cfs_period_us", std::to_string(period_us));
  WriteOrFail(path_ / "cpu.cfs_quota_us", std::to_string(quota_us));
}

int64_t CpuCgroup::ThrottledNs() const {
  std::ifstream file(path_ / "cpu.stat");
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == "throttled_time") return value;
    if (name == "throttled_usec") return value * 1000;
  }
  return 0;
}

}  // namespace teller::cluster
