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
/// the line was read, on the base clock (the reading's realtime and the process's clock readings
/// say when that was; without readings the collector's own time); between two steps to the earlier
/// one. A line that names request ids goes to the nearest such step that has one of these requests,
/// if it is at most 50 ms away. Lines before the first or long after the last step are counted as
/// outside. Adds to `stats`: log_lines_attached, log_lines_by_id, log_lines_outside_steps,
/// log_lines_empty.
void AttachLogs(std::span<const trace::LogLine> lines, std::span<const trace::ClockTriple> triples,
                std::span<const trace::ProcessInfo> processes, const Alignment& alignment,
                RunForest& run, std::map<std::string, int64_t>& stats);

}  // namespace teller::reconstruct
