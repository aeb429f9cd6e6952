#include "src/workload/launch/program.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "src/core/error.h"

namespace teller::launch {

std::filesystem::path FindProgram(const std::string& name) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::filesystem::path> folders = {folder, folder.parent_path() / "bin"};
  const char* path = std::getenv("PATH");
  std::istringstream entries(path == nullptr ? "" : path);
  for (std::string entry; std::getline(entries, entry, ':');) folders.emplace_back(entry);
  for (const auto& candidate : folders) {
    const auto program = candidate / name;
    if (access(program.c_str(), X_OK) == 0 && !std::filesystem::is_directory(program))
      return program;
  }
  throw UnavailableError(
      "program " + name +
      ": neither beside this program nor in PATH; build it with 'scripts/build.sh release " + name +
      "'");
}

}  // namespace teller::launch
