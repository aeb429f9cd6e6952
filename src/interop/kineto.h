#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/input_files.h"
#include "src/interop/kineto_events.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// One file of the PyTorch profiler as it was read.
struct KinetoFile {
  KinetoFileInfo info;
  std::vector<ImportedProcess> processes;  ///< the main one first
  bool found_events = false;               ///< the text has an array of events
  bool cut_short = false;
};

/// Reads one Chrome trace of the PyTorch profiler (Kineto, the older autograd profiler, exports of
/// ROCm builds) into `sink`. Whole events survive a text that is broken or cut short; what could
/// not be used is counted in `log`. `file_rank` is the rank that the file's name states: the file's
/// own distributedInfo goes before it. Throws DataError where the text is no JSON object or array.
/// Memory: the columns of this file.
KinetoFile ImportKineto(ByteStream& in, std::optional<int32_t> file_rank,
                        const ImportOptions& options, TraceSink& sink, ImportLog& log);

/// The rank that the name of a profiler's file states: 'rank-34.Jul_15...', 'worker2_step_12...',
/// '...-TP-3.trace.json.gz', 'rank_0/trace.json'; none where it states none.
std::optional<int32_t> RankFromFileName(std::string_view path);

}  // namespace teller::interop
