// Log files: lines, secrets, and what the text is taken for.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/interop/input_format.h"
#include "src/interop/log_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  DetectFormat(text);
  TextStream in(text);
  MemoryTrace trace;
  ImportLog log;
  ImportLogFile(in, "log", {}, trace, log);
  // What is masked stays masked: a second pass finds nothing new.
  for (const teller::trace::LogLine& line : trace.logs) {
    if (teller::MaskSecrets(line.text) != line.text) std::abort();
  }
  return 0;
}
