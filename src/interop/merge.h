#pragma once

#include <filesystem>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/rank_names.h"
#include "src/interop/trace_sink.h"
#include "src/trace/event.h"

namespace teller::interop {

/// What the merged file of several trace files of ours says of itself: their hosts together. Throws
/// DataError where they are of different runs or clocks, or one is no trace of ours. Each file is
/// read whole in a child process first: one that crashes or hangs the HDF5 library ends there.
trace::TraceMeta MergedMeta(const std::vector<std::filesystem::path>& files);

/// Copies every process, log line, clock reading and counter of a trace file of ours into `sink`.
/// Memory: the events of one process. Throws DataError where two files hold the same rank.
void CopyTrace(const std::filesystem::path& file, TraceSink& sink, RankNames& ranks,
               ImportLog& log);

}  // namespace teller::interop
