#pragma once

#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/input_files.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// Reads trace.json of the published TELLER layout: steps > torch_frontend_ops > torch_backend_ops
/// > runtime_calls | driver_calls > kernels, times in nanoseconds. Frontend operators become ranges
/// and backend operators operators of the backend layer; the join of a call and its kernels is its
/// nesting where no correlation id stands (counted as 'correlation_from_nesting'). Whole steps
/// survive a text that is cut short. Answers the processes ('rank', 'pid' of a step, else one).
std::vector<ImportedProcess> ImportPublished(ByteStream& in, const ImportOptions& options,
                                             TraceSink& sink, ImportLog& log);

}  // namespace teller::interop
