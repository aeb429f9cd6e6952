// The log parser: cleaning, taking apart, masking, request ids.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/reconstruct/log_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::reconstruct;
  const std::string clean = CleanLine(std::string_view(reinterpret_cast<const char*>(data), size));
  const ParsedLine line = ParseLine(clean);
  if (MaskLine(line).size() > 512) std::abort();
  for (const std::string_view id : RequestIds(line.message)) {
    if (id.empty()) std::abort();
  }
  return 0;
}
