#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/reconstruct/clock.h"
#include "src/reconstruct/log_time.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

/// When collected lines were read, on the base clock: by the reading's realtime and the process's
/// clock readings, or without these by the collector's own time.
class ReadingClock {
 public:
  /// `alignment` must outlive the clock.
  ReadingClock(std::span<const trace::ClockTriple> triples, const Alignment& alignment);

  /// None for a line that came without a time of reading, as imported ones do.
  std::optional<int64_t> BaseTime(const trace::LogLine& line) const;

 private:
  const Alignment& alignment_;
  std::vector<std::optional<int64_t>> offsets_;  // monotonic minus realtime
  std::optional<std::size_t> any_;               // a process whose clock is known
};

/// A moment that is known to lie in an interval.
struct LogMoment {
  int64_t begin_ns = 0, end_ns = 0;
};

/// When imported lines were written by what they state, on a trace clock that is realtime. A zone
/// that lines do not state is the one, in quarters of an hour, that brings most of them into the
/// run; UTC where none brings more.
class StatedClock {
 public:
  StatedClock(int64_t run_begin_ns, int64_t run_end_ns, std::span<const LogTime> without_zone);

  std::optional<LogMoment> BaseTime(const LogTime& time) const;
  bool zone_guessed() const { return zone_minutes_ != 0; }

 private:
  int64_t middle_ns_;
  int32_t zone_minutes_ = 0;
};

}  // namespace teller::reconstruct
