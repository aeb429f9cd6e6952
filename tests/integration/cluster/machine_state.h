#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "src/cluster/process_table.h"

namespace teller::testing_support {

/// A journal folder of the test's own, so that no test sees what another left.
class StateFolderGuard {
 public:
  StateFolderGuard() {
    char path[] = "/tmp/teller-test-state-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", folder_.c_str(), 1);
  }
  ~StateFolderGuard() {
    unsetenv("TELLER_STATE_DIR");
    std::filesystem::remove_all(folder_);
  }
  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

inline std::set<std::string> FoldersBelow(const std::string& folder, const std::string& needle) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find(needle) != std::string::npos) names.insert(entry.path().string());
  }
  return names;
}

/// Names of all that a run may leave on the machine: its folder, its interfaces on the host, its
/// cgroups.
inline std::set<std::string> TracesOf(const std::string& run_id, const std::string& interface) {
  std::set<std::string> found = FoldersBelow("/dev/shm", "teller-" + run_id);
  found.merge(FoldersBelow("/sys/class/net", interface));
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"}) {
    found.merge(FoldersBelow(root, "teller-" + run_id));
  }
  return found;
}

}  // namespace teller::testing_support
