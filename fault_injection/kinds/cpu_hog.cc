// Somebody else's work on the processors of one rank: threads of ours that burn bursts of processor
// time there. Levels: bursts of 2 % to 200 % of a step of 6 ms, 4 to 10 ms apart. The record is the
// time that the rank's busiest threads waited for a processor.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/sampled_fault.h"
#include "src/cluster/process_table.h"

namespace teller::fault_injection {
namespace {

constexpr char kBurst[] = "burst_ns";
constexpr char kGapLow[] = "gap_low_ms";
constexpr char kGapHigh[] = "gap_high_ms";
constexpr std::size_t kWatchedThreads = 4;  // reading one costs ten microseconds

int64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

std::vector<int> ProcessorsOf(pid_t pid) {
  cpu_set_t set;
  std::vector<int> processors;
  if (sched_getaffinity(pid, sizeof set, &set) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) processors.push_back(cpu);
  }
  return processors;
}

class CpuHog : public SampledFault {
 public:
  using SampledFault::SampledFault;
  ~CpuHog() override { Undo(); }

  void Apply() override {
    threads_ = cluster::BusiestThreads(target().pid, kWatchedThreads);
    for (const pid_t thread : threads_)
      waited_ns_.push_back(cluster::RunQueueWaitNs(target().pid, thread));
    StartSampling("wait");
    for (const int cpu : ProcessorsOf(threads_.empty() ? target().pid : threads_.front())) {
      hogs_.emplace_back([this, cpu] { Burn(cpu); });
    }
  }

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
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return;
    Random random(plan().seed + static_cast<uint64_t>(cpu));
    const auto burst_ns = plan().placebo ? 0 : static_cast<int64_t>(plan().magnitude.at(kBurst));
    while (!ending()) {
      for (const int64_t end_ns = ThreadCpuNs() + burst_ns; ThreadCpuNs() < end_ns && !ending();) {
      }
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(
          random.Uniform(plan().magnitude.at(kGapLow), plan().magnitude.at(kGapHigh))));
    }
  }

  std::vector<pid_t> threads_;
  std::vector<int64_t> waited_ns_;  // by thread; the sampler's own once it runs
  int64_t lost_ns_ = 0;
  std::vector<std::thread> hogs_;
};

class Kind : public FaultKind {
 public:
  const KindDescription& description() const override { return description_; }

  std::map<std::string, double> Magnitude(double step_us, const ScheduledKind& settings,
                                          const FaultTarget&) const override {
    std::map<std::string, double> magnitude = settings.parameters;
    magnitude[kBurst] = std::round(step_us * 1000);
    return magnitude;
  }

  double Dilation(const std::map<std::string, double>& magnitude, const FaultTarget&,
                  double) const override {
    const double gap_ns = 0.5e6 * (magnitude.at(kGapLow) + magnitude.at(kGapHigh));
    return 1.0 + magnitude.at(kBurst) / gap_ns;
  }

  std::unique_ptr<Fault> Make(const PlannedFault& plan, FaultContext context) const override {
    return std::make_unique<CpuHog>(plan, context);
  }

 private:
  const KindDescription description_{
      .name = "cpu_hog",
      .family = "host",
      .view = "horizontal",
      .where = "interval",
      .needs_agent = false,
      .layers = {},
      .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
      .parameters = {{kGapLow, 4, 0.1, 10000}, {kGapHigh, 10, 0.1, 10000}}};
};

}  // namespace

const FaultKind& CpuHogKind() {
  static const Kind kind;
  return kind;
}

}  // namespace teller::fault_injection
