#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "src/abi/pool.h"

namespace teller::agent {

/// True where the processor has an invariant TSC. Set once by InitialiseClock; zero before, which
/// is safe.
extern bool g_ticks_are_tsc;

void InitialiseClock();

inline int64_t ClockNs(clockid_t clock) noexcept {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

/// CLOCK_MONOTONIC as this process sees it (a time namespace moves it).
inline int64_t MonotonicNs() noexcept { return ClockNs(CLOCK_MONOTONIC); }

/// The stamp of a record: TSC ticks where they can be trusted, else ns of CLOCK_MONOTONIC.
inline uint64_t Now() noexcept {
#if defined(__x86_64__)
  if (__builtin_expect(g_ticks_are_tsc, true)) return __rdtsc();
#endif
  return static_cast<uint64_t>(MonotonicNs());
}

/// The best of several readings of all three clocks.
TellerClockTriple ReadClocks() noexcept;

}  // namespace teller::agent
