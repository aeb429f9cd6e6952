// Somebody else's work on the processors of one rank: threads of ours that burn bursts of processor
// time there. Levels: bursts of 2 % to 200 % of a step of 6 ms, 4 to 10 ms apart. The record is the
// time that the rank's busiest threads waited for a processor.
#include <time.h>

#include <algorithm>
#include <thread>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/pulses.h"
#include "fault_injection/kinds/sampled_fault.h"
#include "src/cluster/process_table.h"

namespace teller::fault_injection {
namespace {

const PulseShape kShape = {.length_name = "burst_ns", .gap_low_ms = 4, .gap_high_ms = 10};
constexpr std::size_t kWatchedThreads = 4;  // reading one costs ten microseconds

int64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

class CpuHog : public SampledFault {
 public:
  CpuHog(const PlannedFault& plan, FaultContext context)
      : SampledFault(plan, context), bursts_(plan, kShape) {}
  ~CpuHog() override { Undo(); }

  void Apply() override {
    threads_ = cluster::BusiestThreads(target().pid, kWatchedThreads);
    for (const pid_t thread : threads_)
      waited_ns_.push_back(cluster::RunQueueWaitNs(target().pid, thread));
    StartSampling("wait");
    for (const int cpu :
         cluster::ProcessorsOf(threads_.empty() ? target().pid : threads_.front())) {
      hogs_.emplace_back([this, cpu] { Burn(cpu); });
    }
  }

  void SetShare(double share) override { bursts_.SetShare(share); }

  void Undo() noexcept override {
    EndSampling();
    for (std::thread& hog : hogs_) {
      if (hog.joinable()) hog.join();
    }
  }

  std::vector<Measure> Measures() const override {
    return {{.name = "wait", .unit = "ns", .value = static_cast<double>(recorded_ns())}};
  }

 private:
  /// Threads wait at the same time, so the longest wait counts, not the sum.
  int64_t ReadLostNs() override {
    int64_t most_ns = 0;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const int64_t waited_ns = cluster::RunQueueWaitNs(target().pid, threads_[i]);
      most_ns = std::max(most_ns, waited_ns - waited_ns_[i]);
      waited_ns_[i] = std::max(waited_ns, waited_ns_[i]);
    }
    return lost_ns_ += most_ns;
  }

  void Burn(int cpu) {
    if (!cluster::BindToProcessor(cpu)) return;
    Random random(plan().seed + static_cast<uint64_t>(cpu));
    while (!ending()) {
      const int64_t end_ns = ThreadCpuNs() + bursts_.LengthNs();
      while (ThreadCpuNs() < end_ns && !ending()) {
      }
      std::this_thread::sleep_for(bursts_.Gap(random));
    }
  }

  Pulses bursts_;
  std::vector<pid_t> threads_;
  std::vector<int64_t> waited_ns_;  // by thread; the sampler's own once it runs
  int64_t lost_ns_ = 0;
  std::vector<std::thread> hogs_;
};

}  // namespace

FaultKind CpuHogKind() {
  return PulsedKind({.name = "cpu_hog",
                     .family = "host",
                     .view = "horizontal",
                     .where = "interval",
                     .resource = "processors"},
                    kShape, [](const PlannedFault& plan, FaultContext context) {
                      return std::make_unique<CpuHog>(plan, context);
                    });
}

}  // namespace teller::fault_injection
