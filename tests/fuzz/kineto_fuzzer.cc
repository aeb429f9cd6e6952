// Chrome traces of the PyTorch profiler: the record cutter, simdjson, the event table, joins.
#include <cstdint>
#include <string_view>

#include "src/core/error.h"
#include "src/interop/kineto.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TextStream in(text);
  MemoryTrace trace;
  ImportLog log;
  try {
    ImportKineto(in, RankFromFileName(text.substr(0, 64)), {}, trace, log);
  } catch (const teller::DataError&) {  // a refusal is an answer
  }
  return 0;
}
