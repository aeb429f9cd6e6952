#include "src/interop/text_cleaning.h"

#include <cstddef>

#include "src/core/secret_mask.h"

namespace teller::interop {

std::string CleanName(std::string_view text, const ImportOptions& options, ImportLog& log) {
  constexpr std::size_t kMaxBytes = 8192;  // templates of kernels reach some 2,000
  if (text.size() > kMaxBytes) {
    log.Count("name_cut", 1, trace::Severity::kInfo, "names");
    text = text.substr(0, kMaxBytes);
  }
  return options.keep_text ? std::string(text) : MaskSecrets(text);
}

}  // namespace teller::interop
