// SQLite exports of Nsight Systems. The database is a file in memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/core/error.h"
#include "src/interop/nsight.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  const int file = memfd_create("nsight_fuzzer", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  MemoryTrace trace;
  ImportLog log;
  try {
    ImportNsight("/proc/self/fd/" + std::to_string(file), {}, trace, log);
  } catch (const teller::DataError&) {
  }
  close(file);
  return 0;
}
