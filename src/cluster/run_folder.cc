#include "src/cluster/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "src/core/error.h"

namespace teller::cluster {

RunFolder::RunFolder(const std::string& run_id, Journal& journal) : journal_(journal) {
  CheckRunId(run_id);
  const std::filesystem::path path = "/dev/shm/teller-" + run_id;
  if (std::filesystem::exists(path)) {
    throw ConfigError(
        fmt::format("{}: a run of that id lives; wait for it or choose another id, "
                    "or run 'teller restore' if its runner was killed",
                    path.string()));
  }
  journal.Record(Change::kFolder, path.string());
  if (mkdir(path.c_str(), 0700) != 0) {
    throw DeviceError(fmt::format("make {}: {}", path.string(), std::strerror(errno)));
  }
  path_ = path;
}

RunFolder::~RunFolder() {
  if (keep_) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) journal_.Keep();
}

}  // namespace teller::cluster
