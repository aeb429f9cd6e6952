#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/ids.h"
#include "src/core/interner.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

/// One collective as one process saw it.
struct CollectiveRecord {
  int process = 0;
  std::size_t event = 0;  ///< its index among the process's events
  StringId comm = kNoString;
  StringId name = kNoString;
  int32_t sequence = -1;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

/// The same collective on two processes or more: indices into the records, by process.
struct MatchedCollective {
  std::vector<std::size_t> records;
};

/// The collectives of one process, by begin. Records that were joined to another one, never ended
/// or have no timing are left out.
std::vector<CollectiveRecord> CollectivesOf(int process, const trace::EventTable& events);

/// When one process itself joined its collectives: begins of the host's records that were joined to
/// a device's (kFlagJoined), by communicator and sequence. The device's record begins when its
/// stream reached the collective; what holds the host's part up lies between the two.
using CollectiveEntries = std::map<std::pair<StringId, int32_t>, int64_t>;
CollectiveEntries EntriesOf(const trace::EventTable& events);

/// Matches records of different processes: by (communicator, sequence) where the sequence is known,
/// else by (communicator, name) and order. A collective that only one process has is left out.
/// Where two records of one process claim the same (communicator, sequence), the earlier counts.
std::vector<MatchedCollective> MatchCollectives(std::span<const CollectiveRecord> records);

/// Whether all members of a collective of this name end together (all-reduce, all-gather,
/// reduce-scatter, all-to-all, barrier): only these tell clocks.
bool EndsTogether(std::string_view name);

}  // namespace teller::reconstruct
