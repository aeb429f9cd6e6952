// One rank's process is stopped and continued in pulses. Levels: pulses of 120 us to 12 ms, 2 % to
// 200 % of a step of 6 ms; between pulses 10 to 40 ms go by, so that steps with and without a pulse
// alternate.
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/pulses.h"
#include "fault_injection/prompt_thread.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

constexpr std::chrono::microseconds kStopPoll(20);
const PulseShape kShape = {.length_name = "pulse_ns", .gap_low_ms = 10, .gap_high_ms = 40};

class ProcessPause : public Fault {
 public:
  ProcessPause(const PlannedFault& plan, FaultContext context)
      : plan_(plan),
        target_(TargetOf(plan, context)),
        context_(context),
        pulses_(plan, kShape),
        random_(plan.seed) {}
  ~ProcessPause() override { Undo(); }

  void Apply() override {
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, target_.pid, 0));
    if (pidfd_ < 0 || !cluster::IsAlive(target_.pid, target_.start_ticks)) return;  // it has ended
    thread_ = std::thread([this] { Pulse(); });
  }

  void SetShare(double share) override { pulses_.SetShare(share); }

  void Undo() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
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
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, pulses_.Gap(random_), [this] { return ending_; });
  }

  /// Recorded from when the kernel says that the process stands still to before it is let go: never
  /// more than it was. A pulse that was not seen to stop it is no action.
  /// @return false when the process has ended
  bool OnePulse() {
    if (!Send(plan_.placebo ? SIGCONT : SIGSTOP)) return false;
    ++count_;
    const bool stopped = !plan_.placebo && WaitUntilStopped();
    const int64_t begin_ns = MonotonicNs();
    WaitUntilNs(begin_ns + pulses_.LengthNs());
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
    RecordInterval(plan_, target_, begin_ns, end_ns, "stop", context_.truth);
  }

  bool Send(int signal_number) {
    return syscall(SYS_pidfd_send_signal, pidfd_, signal_number, nullptr, 0) == 0;
  }

  const PlannedFault plan_;
  const cluster::RankProcess target_;
  FaultContext context_;
  Pulses pulses_;
  Random random_;
  int pidfd_ = -1;
  int64_t count_ = 0, seen_ = 0;
  std::mutex mutex_;  // guards ending_
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace

FaultKind ProcessPauseKind() {
  FaultKind kind = PulsedKind({.name = "process_pause",
                               .family = "host",
                               .view = "horizontal",
                               .where = "interval",
                               .resource = "process"},
                              kShape, [](const PlannedFault& plan, FaultContext context) {
                                return std::make_unique<ProcessPause>(plan, context);
                              });
  kind.announce = [](const PlannedFault& plan, const FaultContext& context) {
    context.journal.RecordProcess(cluster::Change::kStopped, TargetOf(plan, context).pid);
  };
  return kind;
}

}  // namespace teller::fault_injection
