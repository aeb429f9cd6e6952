#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/collect/collective_join.h"
#include "src/collect/spool.h"
#include "src/collect/tick_clock.h"
#include "src/trace/trace_file.h"

namespace teller::collect {

/// What was wrong with the raw records of a process.
struct RecordFaults {
  uint64_t malformed = 0;  ///< unknown layer, kind, source or name: dropped
  uint64_t reversed = 0;   ///< end before begin: kept with end = begin
};

/// Turns the spooled records of one process into events and appends them to the trace, block by
/// block, so that memory is bounded by the number of collectives. Records that are malformed are
/// dropped and counted.
RecordFaults WriteProcessEvents(Spool& spool, const std::vector<std::string>& names,
                                const TickClock& clock, int process, trace::TraceWriter& writer);

}  // namespace teller::collect
