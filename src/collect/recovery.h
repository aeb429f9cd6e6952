#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace teller::collect {

/// What a successor needs to know of a collection: COLLECTION.json in its spool folder, written
/// before the first target starts.
struct CollectionRecord {
  std::string run_id;
  std::filesystem::path run_dir;
  std::filesystem::path output;  ///< absolute
  std::string workload;
  std::string config_yaml;
  int collector_pid = 0;

  /// Throws DeviceError.
  void WriteIn(const std::filesystem::path& spool_dir) const;
  /// Throws DataError.
  static CollectionRecord ReadFrom(const std::filesystem::path& spool_dir);
};

/// Writes the trace file of a collection whose collector was killed, from its spool folder and the
/// pools in its run folder, and removes the spool folder. Targets that still run go on unharmed.
/// Where the output exists, the trace stands beside it as 'NAME-RUN_ID.h5'.
/// @param dry_run  changes nothing, says what would be done
/// @return         what became of it, for people: 'written to trace.h5: 812 records'
/// @throws DataError (no record of the collection), DeviceError (no space: everything stays)
std::string RecoverCollection(const std::filesystem::path& spool_dir, bool dry_run);

/// Run ids of collections beside `output` whose collector is gone and whose records wait.
std::vector<std::string> FindLeftovers(const std::filesystem::path& output);

}  // namespace teller::collect
