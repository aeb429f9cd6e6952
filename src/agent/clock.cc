#include "src/agent/clock.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace teller::agent {

bool g_ticks_are_tsc;

namespace {

constexpr int kReadings = 5;

bool HasInvariantTsc() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && ((d >> 8) & 1u) != 0;
#else
  return false;
#endif
}

TellerClockTriple ReadOnce() noexcept {
  TellerClockTriple triple{};
  const uint64_t before = Now();
  triple.monotonic_ns = MonotonicNs();
  const uint64_t after = Now();
  triple.realtime_ns = ClockNs(CLOCK_REALTIME);
  triple.ticks = before + (after - before) / 2;
  triple.uncertainty_ticks = after - before;
  return triple;
}

}  // namespace

void InitialiseClock() {
  const char* clock = getenv("TELLER_CLOCK");
  const bool asked_for_calls = clock != nullptr && strcmp(clock, "monotonic") == 0;
  g_ticks_are_tsc = !asked_for_calls && HasInvariantTsc();
}

TellerClockTriple ReadClocks() noexcept {
  TellerClockTriple best = ReadOnce();
  for (int i = 1; i < kReadings; ++i) {
    const TellerClockTriple triple = ReadOnce();
    if (triple.uncertainty_ticks < best.uncertainty_ticks) best = triple;
  }
  return best;
}

}  // namespace teller::agent
