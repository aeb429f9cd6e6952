#include "src/reconstruct/log_clock.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace teller::reconstruct {
namespace {

constexpr int32_t kQuarterMinutes = 15, kMostZoneMinutes = 14 * 60;
constexpr int64_t kMinuteNs = 60'000'000'000, kAroundRunNs = 1'000'000'000;

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

ReadingClock::ReadingClock(std::span<const trace::ClockTriple> triples, const Alignment& alignment)
    : alignment_(alignment), offsets_(alignment.processes.size()) {
  std::vector<std::vector<int64_t>> by_process(offsets_.size());
  for (const trace::ClockTriple& triple : triples) {
    if (triple.process < 0 || static_cast<std::size_t>(triple.process) >= by_process.size())
      continue;
    by_process[static_cast<std::size_t>(triple.process)].push_back(triple.monotonic_ns -
                                                                   triple.realtime_ns);
  }
  for (std::size_t i = 0; i < by_process.size(); ++i) {
    if (by_process[i].empty()) continue;
    offsets_[i] = Median(std::move(by_process[i]));
    if (!any_) any_ = i;
  }
}

std::optional<int64_t> ReadingClock::BaseTime(const trace::LogLine& line) const {
  if (line.read_ns == 0 && line.realtime_ns == 0) return std::nullopt;
  const bool known = line.process >= 0 && static_cast<std::size_t>(line.process) < offsets_.size();
  std::optional<std::size_t> process =
      known ? std::optional(static_cast<std::size_t>(line.process)) : std::nullopt;
  if (!process || !offsets_[*process]) process = any_ ? any_ : process;
  if (!process) return line.read_ns;
  const auto& offset_ns = offsets_[*process];
  const int64_t monotonic_ns = offset_ns ? line.realtime_ns + *offset_ns : line.read_ns;
  return alignment_.processes[*process].ToBase(monotonic_ns);
}

StatedClock::StatedClock(int64_t run_begin_ns, int64_t run_end_ns,
                         std::span<const LogTime> without_zone)
    : middle_ns_(run_begin_ns + (run_end_ns - run_begin_ns) / 2) {
  std::vector<int64_t> times;  // as if written in UTC
  for (const LogTime& time : without_zone) {
    if (const auto moment_ns = ResolveLogTime(time, middle_ns_, 0)) times.push_back(*moment_ns);
  }
  std::ranges::sort(times);
  const auto inside = [&](int32_t zone) {
    const int64_t shift_ns = zone * kMinuteNs;
    return std::ranges::upper_bound(times, run_end_ns + kAroundRunNs + shift_ns) -
           std::ranges::lower_bound(times, run_begin_ns - kAroundRunNs + shift_ns);
  };
  auto most = inside(0);
  for (int32_t east = kQuarterMinutes; east <= kMostZoneMinutes; east += kQuarterMinutes) {
    for (const int32_t zone : {east, -east}) {
      if (inside(zone) <= most) continue;
      most = inside(zone);
      zone_minutes_ = zone;
    }
  }
}

std::optional<LogMoment> StatedClock::BaseTime(const LogTime& time) const {
  const auto begin_ns = ResolveLogTime(time, middle_ns_, zone_minutes_);
  if (!begin_ns) return std::nullopt;
  return LogMoment{*begin_ns, *begin_ns + std::max<int64_t>(0, time.resolution_ns - 1)};
}

}  // namespace teller::reconstruct
