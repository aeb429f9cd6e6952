#include "tests/benchmarks/operator_loop.h"

#include <ATen/record_function.h>
#include <time.h>
#include <torch/csrc/autograd/profiler_kineto.h>

namespace {

/// Of this thread, so that other work on the machine does not count.
int64_t CpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

std::unique_ptr<at::ObserverContext> EmptyStart(const at::RecordFunction&) { return nullptr; }
void EmptyEnd(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

int64_t TellerRunRecordFunctions(int64_t count) {
  const int64_t begin_ns = CpuNs();
  for (int64_t i = 0; i < count; ++i) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (!callbacks.has_value()) continue;
    at::RecordFunction guard(std::move(*callbacks));
    guard.before("bench::operator");
  }
  return CpuNs() - begin_ns;
}

int64_t TellerRunWithEmptyCallback(int64_t count) {
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(EmptyStart, EmptyEnd).scopes({at::RecordScope::FUNCTION}));
  const int64_t ns = TellerRunRecordFunctions(count);
  at::removeCallback(handle);
  return ns;
}

int64_t TellerRunUnderProfiler(int64_t count) {
  using torch::profiler::impl::ActivityType;
  const std::set<ActivityType> activities{ActivityType::CPU};
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
  const int64_t ns = TellerRunRecordFunctions(count);
  torch::autograd::profiler::disableProfiler();
  return ns;
}
