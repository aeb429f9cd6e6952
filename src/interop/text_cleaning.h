#pragma once

#include <string>
#include <string_view>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"

namespace teller::interop {

/// A name or command line as it may be kept: secrets masked unless the options say otherwise, cut
/// at 8,192 bytes (counted).
std::string CleanName(std::string_view text, const ImportOptions& options, ImportLog& log);

}  // namespace teller::interop
