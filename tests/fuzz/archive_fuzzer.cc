// Compressed files and tars, one inside the other.
#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/error.h"
#include "src/interop/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::interop;
  TextStream in(std::string_view(reinterpret_cast<const char*>(data), size));
  std::string block(4096, '\0');
  try {
    ArchiveReader outer(in, "fuzz");
    for (int members = 0; members < 16 && outer.Next(); ++members) {
      if (!outer.is_archive()) {
        for (int blocks = 0; blocks < 256 && outer.stream().Read(block.data(), block.size()) > 0;
             ++blocks) {
        }
        continue;
      }
      ArchiveReader inner(outer.stream(), outer.name());
      while (inner.Next()) {
        for (int blocks = 0; blocks < 256 && inner.stream().Read(block.data(), block.size()) > 0;
             ++blocks) {
        }
      }
    }
  } catch (const teller::DataError&) {
  }
  return 0;
}
