// JSON lines of NCCL Inspector.
#include <cstdint>
#include <string_view>

#include "src/interop/nccl_inspector.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  TextStream in(std::string_view(reinterpret_cast<const char*>(data), size));
  MemoryTrace trace;
  ImportLog log;
  ImportNcclInspector(in, {}, trace, log);
  return 0;
}
