#pragma once

#include <string>

namespace teller::collect {

/// 16 random hexadecimal digits.
std::string RandomRunId();

}  // namespace teller::collect
