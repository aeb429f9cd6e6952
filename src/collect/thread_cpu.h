#pragma once

#include <time.h>

#include <cstdint>

namespace teller::collect {

/// Processor time that the calling thread has used.
inline int64_t ThreadCpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace teller::collect
