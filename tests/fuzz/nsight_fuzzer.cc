// SQLite exports of Nsight Systems.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/core/error.h"
#include "src/interop/nsight.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  // SQLite opens paths only.
  static const std::filesystem::path path =
      std::filesystem::path("/dev/shm") / ("teller-nsight-fuzzer-" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  MemoryTrace trace;
  ImportLog log;
  try {
    ImportNsight(path, {}, trace, log);
  } catch (const teller::DataError&) {
  }
  std::filesystem::remove(path);
  return 0;
}
