#pragma once

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

/// Undoes, in reverse order, what runners that no longer live have left on this machine, as their
/// journals say, and removes those journals. Only what is still ours is touched: processes by pid
/// and start time, folders and cgroups by their 'teller-' names. Safe to call at any time and from
/// several processes. Journals of other users are not read.
/// @param dry_run  changes nothing, says what would be done
/// @return         what was found, in the order of undoing; empty: the machine is clean
std::vector<Leftover> RestoreLeftovers(bool dry_run);

}  // namespace teller::cluster
