#pragma once

#include <filesystem>
#include <string>

#include "src/cluster/journal.h"

namespace teller::cluster {

/// /dev/shm/teller-RUN_ID: the folder of a run's shared memory, journalled, mode 0700, removed with
/// this object.
class RunFolder {
 public:
  /// Throws ConfigError where the run id has other characters than letters, digits, '-', '_', '.'
  /// or a run of that id lives; DeviceError where the folder cannot be made.
  RunFolder(const std::string& run_id, Journal& journal);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// It stays, for 'teller restore'.
  void Keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  Journal& journal_;
  bool keep_ = false;
};

}  // namespace teller::cluster
