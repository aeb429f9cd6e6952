#pragma once

#include <filesystem>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// Reads a SQLite export of Nsight Systems (2020 to 2026; every table and column may be missing).
/// Device records are joined with launches per process only: correlation ids repeat between
/// processes. Environment tables are never read; of the capture's settings only the command line
/// is, masked. Times become realtime where the export states the session's start, else they stay as
/// they are (counted as 'no_session_start'). Answers the processes that have device work, or else
/// any event, in the order of their devices. Throws DataError on a damaged database or one without
/// any table of events.
std::vector<ImportedProcess> ImportNsight(const std::filesystem::path& path,
                                          const ImportOptions& options, TraceSink& sink,
                                          ImportLog& log);

}  // namespace teller::interop
