#include "fault_injection/prompt_thread.h"

#include <sys/resource.h>
#include <time.h>

#include "src/core/clock.h"

namespace teller::fault_injection {
namespace {

constexpr int kNice = -10;
constexpr int64_t kSpinNs = 100'000;

}  // namespace

void RunPromptly() noexcept {
  // Linux keeps a nice value for each thread; 0 names the calling one.
  [[maybe_unused]] const int refused = setpriority(PRIO_PROCESS, 0, kNice);
}

void WaitUntilNs(int64_t when_ns) noexcept {
  const int64_t wake_ns = when_ns - kSpinNs;
  const timespec wake{.tv_sec = wake_ns / 1'000'000'000, .tv_nsec = wake_ns % 1'000'000'000};
  while (MonotonicNs() < wake_ns) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
  }
  while (MonotonicNs() < when_ns) {
  }
}

}  // namespace teller::fault_injection
