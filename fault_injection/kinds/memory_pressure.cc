// Somebody else's memory traffic: threads of ours that stream through large buffers on the rank's
// processors, and only while nobody else wants those (SCHED_IDLE), so that they cost the rank
// caches and bandwidth but no processor time. Levels: bursts of 2 % to 200 % of a step of 6 ms, 1
// to 3 ms apart. No counter says what a step lost by it, so it is measured by the stretch: bytes
// moved.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/pulses.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"

namespace teller::fault_injection {
namespace {

constexpr std::size_t kBufferBytes = 64u << 20;  // more than the last-level cache of most machines
constexpr std::size_t kPieceBytes = 1u << 20;    // between two looks at the clock
const PulseShape kShape = {.length_name = "burst_ns", .gap_low_ms = 1, .gap_high_ms = 3};

class MemoryPressure : public Fault {
 public:
  MemoryPressure(const PlannedFault& plan, const FaultContext& context)
      : plan_(plan), target_(TargetOf(plan, context)), bursts_(plan, kShape) {}
  ~MemoryPressure() override { Undo(); }

  void Apply() override {
    for (const int cpu : cluster::ProcessorsOf(target_.pid)) {
      threads_.emplace_back([this, cpu] { Stream(cpu); });
      SetPolicy(threads_.back(), SCHED_IDLE);
    }
  }
  void SetShare(double share) override { bursts_.SetShare(share); }

  void Undo() noexcept override {
    ending_.store(true);
    for (std::thread& thread : threads_) {
      if (!thread.joinable()) continue;
      SetPolicy(thread, SCHED_OTHER);  // an idle thread may never get to see that it is to end
      thread.join();
    }
  }

  std::vector<Measure> Measures() const override {
    return {{.name = "bytes_moved",
             .unit = "bytes",
             .value = static_cast<double>(bytes_moved_.load())}};
  }
  bool Acted() const override { return !plan_.placebo && bytes_moved_.load() > 0; }

 private:
  static void SetPolicy(std::thread& thread, int policy) noexcept {
    const sched_param parameters{.sched_priority = 0};
    pthread_setschedparam(thread.native_handle(), policy, &parameters);
  }

  void Stream(int cpu) {
    if (!cluster::BindToProcessor(cpu)) return;
    std::vector<uint64_t> buffer(kBufferBytes / sizeof(uint64_t));
    Random random(plan_.seed + static_cast<uint64_t>(cpu));
    std::size_t at = 0;
    while (!ending_.load()) {
      const int64_t end_ns = MonotonicNs() + bursts_.LengthNs();
      while (MonotonicNs() < end_ns && !ending_.load()) at = MovePiece(buffer, at);
      std::this_thread::sleep_for(bursts_.Gap(random));
    }
  }

  /// Reads and writes the piece of the buffer at `at`; answers where the next one begins.
  std::size_t MovePiece(std::vector<uint64_t>& buffer, std::size_t at) {
    const std::size_t end = at + kPieceBytes / sizeof(uint64_t);
    for (; at < end; ++at) ++buffer[at];
    bytes_moved_.fetch_add(static_cast<int64_t>(2 * kPieceBytes), std::memory_order_relaxed);
    return at == buffer.size() ? 0 : at;
  }

  const PlannedFault plan_;
  const cluster::RankProcess target_;
  Pulses bursts_;
  std::atomic<bool> ending_ = false;
  std::atomic<int64_t> bytes_moved_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

FaultKind MemoryPressureKind() {
  return PulsedKind(
      {.name = "memory_pressure", .family = "memory", .view = "vertical", .where = "stretch"},
      kShape, [](const PlannedFault& plan, FaultContext context) {
        return std::make_unique<MemoryPressure>(plan, context);
      });
}

}  // namespace teller::fault_injection
