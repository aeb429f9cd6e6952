#pragma once

#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/input_files.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// Reads JSON lines of NCCL Inspector (formats up to v4.3): one event for every collective and
/// point-to-point operation, on a track of its communicator. Where a line has its kernels' times
/// they are the event's times; else the event ends when the line was dumped and lasts as long as
/// the line says (counted as 'time_from_dump'). A process's rank is the one in its largest
/// communicator.
std::vector<ImportedProcess> ImportNcclInspector(ByteStream& in, const ImportOptions& options,
                                                 TraceSink& sink, ImportLog& log);

}  // namespace teller::interop
