#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "src/cluster/channel.h"
#include "src/cluster/cluster.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"
#include "src/core/interrupt.h"

namespace teller::cluster {
namespace {

bool HasEnded(int pidfd, int timeout_ms) {
  pollfd waiting{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

ExitStatus FromWait(int status) {
  if (WIFSIGNALED(status)) return {.code = 0, .signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status), .signal = 0};
}

/// Waits in slices, so that an interrupt is seen.  @return true when the process has ended
bool WaitForEnd(int pidfd, int64_t timeout_ns, bool until_interrupted) {
  const int64_t begin_ns = MonotonicNs();
  while (true) {
    if (until_interrupted && Interrupted()) return HasEnded(pidfd, 0);
    int64_t slice_ms = 50;
    if (timeout_ns >= 0) {
      const int64_t left_ns = timeout_ns - (MonotonicNs() - begin_ns);
      if (left_ns <= 0) return HasEnded(pidfd, 0);
      slice_ms = std::min<int64_t>(slice_ms, left_ns / 1'000'000 + 1);
    }
    if (HasEnded(pidfd, static_cast<int>(slice_ms))) return true;
  }
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  const char* name = sigabbrev_np(signal);
  return fmt::format("killed by SIG{}", name != nullptr ? name : std::to_string(signal));
}

Process::Process(std::shared_ptr<Channel> channel, pid_t pid, uint64_t start_ticks, int pidfd)
    : channel_(std::move(channel)), pid_(pid), start_ticks_(start_ticks), pidfd_(pidfd) {}

Process::~Process() { close(pidfd_); }

std::optional<ExitStatus> Process::Poll() {
  const std::lock_guard lock(mutex_);
  if (status_ || !HasEnded(pidfd_, 0)) return status_;
  const auto answer = channel_->Ask({{"op", "status"}, {"pid", pid_}});
  if (!answer) {
    status_ = ExitStatus{.code = 0, .signal = SIGKILL};  // the node ended, and this with it
  } else if (const auto found = answer->body.find("status"); found != answer->body.end()) {
    status_ = FromWait(found->get<int>());
  }
  return status_;
}

std::optional<ExitStatus> Process::Wait(int64_t timeout_ns) {
  return WaitForEnd(pidfd_, timeout_ns, /*until_interrupted=*/true) ? Poll() : std::nullopt;
}

void Process::Signal(int signal_number) {
  syscall(SYS_pidfd_send_signal, pidfd_, signal_number, nullptr, 0);
}

void Process::SignalGroup(int signal_number) {
  // By membership, never by kill(-pid): once the leader is reaped the number may be somebody
  // else's.
  for (const pid_t pid : Descendants(channel_->holder())) {
    if (pid != pid_ && getpgid(pid) == pid_) kill(pid, signal_number);
  }
  Signal(signal_number);
}

ExitStatus Process::Stop(int64_t grace_ns) {
  SignalGroup(SIGTERM);
  SignalGroup(SIGCONT);
  if (!WaitForEnd(pidfd_, grace_ns, /*until_interrupted=*/false)) {
    SignalGroup(SIGKILL);
    WaitForEnd(pidfd_, -1, /*until_interrupted=*/false);
  }
  return Poll().value_or(ExitStatus{.code = 0, .signal = SIGKILL});
}

}  // namespace teller::cluster
