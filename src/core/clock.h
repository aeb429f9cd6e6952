#pragma once

#include <cstdint>
#include <string>

namespace teller {

/// CLOCK_MONOTONIC of this process in nanoseconds: the trace clock.
int64_t MonotonicNs();

/// CLOCK_REALTIME in nanoseconds since 1970.
int64_t RealtimeNs();

/// '2026-12-01T12:00:00Z'.
std::string UtcNow();

/// '850 ns', '12.3 us', '4.56 ms', '1.20 s', '3 min 20 s': three significant digits, for people.
std::string FormatDuration(int64_t duration_ns);

}  // namespace teller
