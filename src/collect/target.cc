#include "src/collect/target.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr int kForwarded[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT,
                              SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
std::atomic<pid_t> forward_to{0};

/// A terminal signals its whole foreground group, the target included; what another process sends
/// reaches us alone.
void Forward(int signal_number, siginfo_t* info, void*) {
  const int saved = errno;
  const pid_t target = forward_to.load();
  if (target > 0 && info->si_code <= 0) kill(target, signal_number);
  errno = saved;
}

void ForwardSignals(pid_t target) {
  forward_to.store(target);
  struct sigaction action = {};
  action.sa_sigaction = Forward;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  for (const int signal_number : kForwarded) sigaction(signal_number, &action, nullptr);
}

void RestoreDefaultSignals() {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void Execute(const std::vector<std::string>& argv,
                          const std::map<std::string, std::string>& environment,
                          const RelayPipes& pipes, int report) {
  RestoreDefaultSignals();
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(pipes.stdout_write, STDOUT_FILENO);
  dup2(pipes.stderr_write, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  const ssize_t ignored = write(report, &error, sizeof error);
  _exit(ignored == sizeof error ? 126 : 125);
}

int ShellCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Target::Target(const std::vector<std::string>& argv,
               const std::map<std::string, std::string>& environment, const RelayPipes& pipes) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    throw DeviceError(fmt::format("cannot make a pipe: {}", strerror(errno)));
  pid_ = fork();
  if (pid_ < 0) throw DeviceError(fmt::format("cannot start '{}': {}", argv[0], strerror(errno)));
  if (pid_ == 0) Execute(argv, environment, pipes, report[1]);
  close(report[1]);
  int error = 0;
  const bool failed = read(report[0], &error, sizeof error) == sizeof error;
  close(report[0]);
  if (failed) {
    waitpid(pid_, nullptr, 0);
    throw CommandError{error == ENOENT ? 127 : 126,
                       fmt::format("cannot execute '{}': {}", argv[0], strerror(error))};
  }
  ForwardSignals(pid_);
}

std::optional<int> Target::Wait(int64_t timeout_ns) {
  const int64_t end_ns = MonotonicNs() + timeout_ns;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  int status = 0;
  for (;;) {
    if (waitpid(pid_, &status, timeout_ns < 0 ? 0 : WNOHANG) == pid_) break;
    const int64_t left_ns = end_ns - MonotonicNs();
    if (timeout_ns >= 0 && left_ns <= 0) {
      if (handle >= 0) close(handle);
      return std::nullopt;
    }
    pollfd ended{handle, POLLIN, 0};
    if (timeout_ns >= 0) poll(&ended, 1, static_cast<int>(left_ns / 1'000'000) + 1);
  }
  if (handle >= 0) close(handle);
  forward_to.store(0);
  return ShellCode(status);
}

}  // namespace teller::collect
