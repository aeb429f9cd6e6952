// Preloaded by tests: CLOCK_REALTIME jumps five seconds ahead 0.8 s after the process began.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

timespec Read(clockid_t clock) {
  timespec time = {};
  syscall(SYS_clock_gettime, clock, &time);
  return time;
}

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

const double began_s = Seconds(Read(CLOCK_MONOTONIC));

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  *time = Read(clock);
  const bool late = Seconds(Read(CLOCK_MONOTONIC)) - began_s > 0.8;
  if (clock == CLOCK_REALTIME && late) time->tv_sec += 5;
  return 0;
}
