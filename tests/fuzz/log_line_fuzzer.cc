// The log parser: cleaning, taking apart, stated times, masking, request ids, templates.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "src/reconstruct/log_line.h"
#include "src/reconstruct/log_template.h"
#include "src/reconstruct/log_time.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller::reconstruct;
  std::vector<std::string> masked;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string clean = CleanLine(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const ParsedLine line = ParseLine(clean);
    if (const auto time = ReadLogTime(line.time))
      ResolveLogTime(*time, 1'800'000'000'000'000'000, 0);
    masked.push_back(MaskLine(line));
    if (masked.back().size() > 512) std::abort();
    for (const std::string_view id : RequestIds(line.message)) {
      if (id.empty()) std::abort();
    }
  }
  if (MineTemplates(masked).of.size() != masked.size()) std::abort();
  return 0;
}
