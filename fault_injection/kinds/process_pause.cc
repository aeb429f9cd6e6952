// One rank's process is stopped and continued in pulses. Levels: pulses of 120 us to 12 ms, 2 % to
// 200 % of a step of 6 ms; between pulses 10 to 40 ms go by, so that steps with and without a pulse
// alternate.
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/sampled_fault.h"
#include "fault_injection/prompt_thread.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

constexpr char kPulse[] = "pulse_ns";
constexpr char kGapLow[] = "gap_low_ms";
constexpr char kGapHigh[] = "gap_high_ms";
constexpr std::chrono::microseconds kStopPoll(20);

class ProcessPause : public Fault {
 public:
  ProcessPause(const PlannedFault& plan, const cluster::RankProcess& target, FaultContext context)
      : plan_(plan), target_(target), context_(context), random_(plan.seed) {}
  ~ProcessPause() override { Undo(); }

  void Apply() override {
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, target_.pid, 0));
    if (pidfd_ < 0 || !cluster::IsAlive(target_.pid, target_.start_ticks)) return;  // it has ended
    context_.journal.RecordProcess(cluster::Change::kStopped, target_.pid);
    pulses_ = std::thread([this] { Pulse(); });
  }

  void Undo() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    if (pulses_.joinable()) pulses_.join();
    if (pidfd_ >= 0) {
      Send(SIGCONT);
      close(pidfd_);
      pidfd_ = -1;
    }
  }

  std::vector<Measure> Measures() const override {
    return {{.name = "pulses", .unit = "count", .value = static_cast<double>(count_)},
            {.name = "pulses_seen_stopped", .unit = "count", .value = static_cast<double>(seen_)}};
  }

 private:
  void Pulse() {
    RunPromptly();
    while (WaitGap()) {
      if (!OnePulse()) return;
    }
  }

  /// Waits for the next pulse; false when the stretch is over.
  bool WaitGap() {
    const double gap_ms =
        random_.Uniform(plan_.magnitude.at(kGapLow), plan_.magnitude.at(kGapHigh));
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, std::chrono::duration<double, std::milli>(gap_ms),
                           [this] { return ending_; });
  }

  /// Recorded from when the kernel says that the process stands still to before it is let go: never
  /// more than it was. A pulse that was not seen to stop it is no action.
  /// @return false when the process has ended
  bool OnePulse() {
    if (!Send(plan_.placebo ? SIGCONT : SIGSTOP)) return false;
    ++count_;
    const bool stopped = !plan_.placebo && WaitUntilStopped();
    const int64_t begin_ns = MonotonicNs();
    WaitUntilNs(begin_ns + static_cast<int64_t>(plan_.magnitude.at(kPulse)));
    const int64_t end_ns = MonotonicNs();
    const bool alive = Send(SIGCONT);
    if (stopped) Record(begin_ns, end_ns);
    return alive;
  }

  /// The signal takes effect when each of the target's threads gets to run, which may take long on
  /// a busy machine: it is waited for until the stretch is over.
  bool WaitUntilStopped() {
    while (!Ending()) {
      const auto stat = cluster::ReadProcessStat(target_.pid);
      if (!stat) return false;
      if (stat->state == 'T') return true;
      std::this_thread::sleep_for(kStopPoll);
    }
    return false;
  }

  bool Ending() {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  void Record(int64_t begin_ns, int64_t end_ns) {
    ++seen_;
    context_.truth.Action({.plan_id = plan_.plan_id,
                           .node = target_.node,
                           .rank = target_.rank,
                           .begin_ns = begin_ns + target_.clock_offset_ns,
                           .end_ns = end_ns + target_.clock_offset_ns,
                           .what = "stop",
                           .where = "interval"});
  }

  bool Send(int signal_number) {
    return syscall(SYS_pidfd_send_signal, pidfd_, signal_number, nullptr, 0) == 0;
  }

  const PlannedFault plan_;
  const cluster::RankProcess target_;
  FaultContext context_;
  Random random_;
  int pidfd_ = -1;
  int64_t count_ = 0, seen_ = 0;
  std::mutex mutex_;  // guards ending_
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread pulses_;
};

class Kind : public FaultKind {
 public:
  const KindDescription& description() const override { return description_; }

  std::map<std::string, double> Magnitude(double step_us, const ScheduledKind& settings,
                                          const FaultTarget&) const override {
    std::map<std::string, double> magnitude = settings.parameters;
    magnitude[kPulse] = std::round(step_us * 1000.0);
    return magnitude;
  }

  double Dilation(const std::map<std::string, double>& magnitude, const FaultTarget&,
                  double) const override {
    const double gap_ns = 0.5e6 * (magnitude.at(kGapLow) + magnitude.at(kGapHigh));
    return 1.0 + magnitude.at(kPulse) / gap_ns;
  }

  std::unique_ptr<Fault> Make(const PlannedFault& plan, FaultContext context) const override {
    return std::make_unique<ProcessPause>(plan, TargetOf(plan, context), context);
  }

 private:
  const KindDescription description_{
      .name = "process_pause",
      .family = "host",
      .view = "horizontal",
      .where = "interval",
      .needs_agent = false,
      .layers = {},
      .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
      .parameters = {{kGapLow, 10, 1, 10000}, {kGapHigh, 40, 1, 10000}}};
};

}  // namespace

const FaultKind& ProcessPauseKind() {
  static const Kind kind;
  return kind;
}

}  // namespace teller::fault_injection
