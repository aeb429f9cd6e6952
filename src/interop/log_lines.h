#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/secret_mask.h"
#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/input_files.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// Cuts a log into lines and puts them into a sink, secrets masked. When a line was read is not
/// known: the times that lines state are left to reconstruct/. Lines are cut at 64 KiB, and what
/// comes after is counted.
class LogLines {
 public:
  LogLines(std::string_view file_name, int process, const ImportOptions& options, TraceSink& sink,
           ImportLog& log);
  ~LogLines() = default;

  void Add(std::string_view bytes);
  /// The last line may lack its end.
  void Finish();

 private:
  void EndLine();

  ImportOptions options_;
  TraceSink* sink_;
  ImportLog* log_;
  StringId file_;
  int process_;
  SecretMasker masker_;
  std::string line_;
  uint64_t line_offset_ = 0;
  uint64_t offset_ = 0;
  bool line_open_ = false;
  std::vector<trace::LogLine> batch_;
};

/// Reads a whole log. Memory: a few thousand lines.
void ImportLogFile(ByteStream& in, std::string_view file_name, const ImportOptions& options,
                   TraceSink& sink, ImportLog& log);

}  // namespace teller::interop
