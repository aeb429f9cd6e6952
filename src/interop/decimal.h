#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace teller::interop {

/// A decimal number of microseconds ('4458676522690.655', '68.0', '1.5e3', quoted or not) as whole
/// nanoseconds, computed on the digits: a double loses the last digit of a quarter of today's time
/// stamps. Digits below a nanosecond are rounded half up in magnitude.
/// None where the text is no finite number or the result does not fit into 64 bits.
std::optional<int64_t> MicrosecondsToNs(std::string_view text);

/// A whole number, quoted or not; '17.0' is taken, '17.5' is not. None where it is none or does not
/// fit.
std::optional<int64_t> ParseInteger(std::string_view text);

/// As ParseInteger over 0 .. 2^64 - 1.
std::optional<uint64_t> ParseUnsigned(std::string_view text);

}  // namespace teller::interop
