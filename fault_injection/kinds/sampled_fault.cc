#include "fault_injection/kinds/sampled_fault.h"

#include <algorithm>
#include <chrono>

#include "fault_injection/prompt_thread.h"
#include "src/core/clock.h"

namespace teller::fault_injection {
namespace {

constexpr std::chrono::milliseconds kPeriod(2);
/// Less than this in a period is the machine's own noise.
constexpr int64_t kLeastNs = 50'000;

}  // namespace

SampledFault::SampledFault(PlannedFault plan, FaultContext context)
    : plan_(std::move(plan)), context_(context), target_(TargetOf(plan_, context)) {}

void SampledFault::StartSampling(std::string what) {
  what_ = std::move(what);
  sampler_ = std::thread([this] { Sample(); });
}

void SampledFault::EndSampling() noexcept {
  ending_.store(true, std::memory_order_relaxed);
  if (sampler_.joinable()) sampler_.join();
}

void SampledFault::Sample() {
  RunPromptly();
  int64_t seen_ns = ReadLostNs(), free_ns = MonotonicNs();
  while (!ending()) {
    std::this_thread::sleep_for(kPeriod);
    const int64_t lost_ns = ReadLostNs(), now_ns = MonotonicNs();
    const int64_t grown_ns = lost_ns - seen_ns;
    if (grown_ns < kLeastNs) continue;
    seen_ns = lost_ns;
    const int64_t begin_ns = std::max(free_ns, now_ns - grown_ns);
    free_ns = now_ns;
    if (plan_.placebo) continue;
    recorded_ns_ += now_ns - begin_ns;
    RecordInterval(plan_, target_, begin_ns, now_ns, what_, context_.truth);
  }
}

}  // namespace teller::fault_injection
