#include "src/core/clock.h"

#include <fmt/format.h>
#include <time.h>

#include <cmath>
#include <cstdlib>

namespace teller {
namespace {

int64_t ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

int64_t MonotonicNs() { return ReadClock(CLOCK_MONOTONIC); }
int64_t RealtimeNs() { return ReadClock(CLOCK_REALTIME); }

std::string UtcNow() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string FormatDuration(int64_t duration_ns) {
  const double ns = static_cast<double>(duration_ns);
  const double size = std::abs(ns);
  if (size < 1e3) return fmt::format("{} ns", duration_ns);
  if (size < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  if (size < 1e9) return fmt::format("{:.3g} ms", ns / 1e6);
  if (size < 60e9) return fmt::format("{:.3g} s", ns / 1e9);
  const int64_t seconds = static_cast<int64_t>(std::llround(ns / 1e9));
  return fmt::format("{} min {} s", seconds / 60, std::llabs(seconds % 60));
}

}  // namespace teller
