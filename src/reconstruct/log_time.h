#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace teller::reconstruct {

/// A time as a log line states it; what is not said is absent.
struct LogTime {
  std::optional<int32_t> year;
  std::optional<int32_t> month, day;    ///< both or none
  int64_t of_day_ns = 0;                ///< since midnight
  int64_t resolution_ns = 0;            ///< of the last digit written: 1 s, 1 ms, ...
  std::optional<int32_t> zone_minutes;  ///< east of UTC
};

/// Reads '2026-12-01 12:00:00,123', '12-01 12:00:00', '2026-12-01T12:00:00.5+01:00', '1201
/// 12:00:00.123456' (glog), '12:00:00', each with 'Z', 'UTC', '+0100' or '+01:00' behind it or
/// nothing. None where it is no time or no possible one.
std::optional<LogTime> ReadLogTime(std::string_view text);

/// Nanoseconds since 1970 of a stated time. What is not said is taken from `near_ns`: of the year
/// or the day the one that brings it nearest; a zone that is not said is `zone_minutes`. None for a
/// day that no year near has.
std::optional<int64_t> ResolveLogTime(const LogTime& time, int64_t near_ns, int32_t zone_minutes);

}  // namespace teller::reconstruct
