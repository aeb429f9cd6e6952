#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace teller::cluster {

/// One thing that a dead runner left behind.
struct Leftover {
  std::string run_id;
  std::string change;   ///< as ChangeName
  std::string what;     ///< path, or pid with its name
  std::string outcome;  ///< 'undone', 'would be undone' or why it could not be
  bool failed = false;
};

/// Writes the trace file of a killed collection from its spool folder, or (dry run) says what would
/// be written; answers the outcome for people, throws Error where it cannot.
using CollectionRecovery =
    std::function<std::string(const std::filesystem::path& spool_folder, bool dry_run)>;

/// Undoes, in reverse order, what runners that no longer live have left on this machine, as their
/// journals say, and removes those journals. Only what is still ours is touched: processes by pid
/// and start time, folders and cgroups by their 'teller-' names. Safe to call at any time and from
/// several processes. Journals of other users are not read.
/// @param dry_run  changes nothing, says what would be done
/// @param recover  without it, journals of collections are left alone: their records would be lost
/// @return         what was found, in the order of undoing; empty: the machine is clean
std::vector<Leftover> RestoreLeftovers(bool dry_run, const CollectionRecovery& recover = {});

}  // namespace teller::cluster
