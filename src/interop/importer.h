#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/input_format.h"
#include "src/interop/trace_sink.h"
#include "src/trace/event.h"

namespace teller::interop {

/// One file of an import, judged by its content.
struct PlannedFile {
  std::filesystem::path path;
  InputFormat format = InputFormat::kNone;
};

/// What an import is going to read: files of one trace format, and log files beside them.
struct ImportPlan {
  InputFormat format = InputFormat::kNone;  ///< of the trace; kLog where there are only logs
  std::vector<PlannedFile> files;
  trace::TraceMeta meta;
  ImportLog log;  ///< files of a folder that were left out
};

/// Looks at the inputs (files, archives, folders) and says what they are. Throws DataError, one
/// line: an input that is missing, empty or of no kind that is read here (and what it looks like
/// instead), two trace formats at once, trace files of ours of different runs.
ImportPlan PlanImport(const std::vector<std::filesystem::path>& inputs);

/// Reads the planned files into `sink`. Ranks come from the files' own statements, else from their
/// names, else from their order; a note says which. Throws DataError: the same rank twice, ranks of
/// different runs, nothing that could be used.
/// Memory: the events of the largest rank; of the source, one record at a time.
ImportLog RunImport(const ImportPlan& plan, const ImportOptions& options, TraceSink& sink);

}  // namespace teller::interop
