// trace.json of the published TELLER layout.
#include <cstdint>
#include <string_view>

#include "src/core/error.h"
#include "src/interop/published_import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  TextStream in(std::string_view(reinterpret_cast<const char*>(data), size));
  MemoryTrace trace;
  ImportLog log;
  try {
    ImportPublished(in, {}, trace, log);
  } catch (const teller::DataError&) {
  }
  return 0;
}
