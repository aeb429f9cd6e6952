#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/reconstruct/clock.h"
#include "src/reconstruct/step_forest.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

/// Attaches log lines to the steps of a run, masked. A line goes to the step that was running when
/// the line was read, on the base clock (ReadingClock); between two steps to the earlier one. A
/// line without a time of reading goes by the time it states (StatedClock), if that is fine enough
/// to tell steps apart. A line that names request ids goes to the nearest such step that has one of
/// these requests, if it is at most 50 ms away. Indented lines without a time, level or process of
/// their own and the rest of a traceback go with the line before them in their stream. Lines before
/// the first or long after the last step are counted as outside. Adds to `stats` what
/// docs/reconstruction.md lists under log_*.
void AttachLogs(std::span<const trace::LogLine> lines, std::span<const trace::ClockTriple> triples,
                std::span<const trace::ProcessInfo> processes, const Alignment& alignment,
                RunForest& run, std::map<std::string, int64_t>& stats);

}  // namespace teller::reconstruct
