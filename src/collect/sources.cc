#include "src/collect/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr const char* kSourceNames[] = {"nvtx", "torch", "cupti", "cpu-stream", "import"};
static_assert(std::size(kSourceNames) == TELLER_SOURCE_COUNT);

}  // namespace

std::string SourceOptionName(uint32_t source) { return kSourceNames[source]; }

uint32_t ParseSources(const std::string& text) {
  uint32_t bits = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto* known =
        std::find(std::begin(kSourceNames), std::begin(kSourceNames) + TELLER_SOURCE_IMPORT, name);
    if (known == std::begin(kSourceNames) + TELLER_SOURCE_IMPORT) {
      throw ConfigError(
          fmt::format("source '{}': expected nvtx, torch, cupti or cpu-stream", name));
    }
    bits |= 1u << (known - std::begin(kSourceNames));
    begin = end + 1;
  }
  return bits;
}

}  // namespace teller::collect
