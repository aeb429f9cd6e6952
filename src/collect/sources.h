#pragma once

#include <cstdint>
#include <string>

#include "src/abi/record.h"

namespace teller::collect {

inline constexpr uint32_t kAllSources = (1u << TELLER_SOURCE_COUNT) - 1;

/// 'nvtx', 'torch', 'cupti', 'cpu-stream', 'import' for a TellerSource.
std::string SourceOptionName(uint32_t source);

/// Bits of TellerSource for a comma-separated list of 'nvtx', 'torch', 'cupti', 'cpu-stream';
/// throws ConfigError.
uint32_t ParseSources(const std::string& text);

}  // namespace teller::collect
