#include "src/h5/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <system_error>

#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::h5 {
namespace {

// First byte of the child's answer.
constexpr char kAnswer = 'A';
constexpr char kError = 'E';

uint64_t AddressSpaceBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void Limit(int resource, uint64_t soft, uint64_t hard) {
  const rlimit limit{soft, hard};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

void ApplyLimits(const ChildLimits& limits) {
  Limit(RLIMIT_CORE, 0, 0);
  const auto cpu_seconds = static_cast<uint64_t>(limits.cpu_seconds);
  Limit(RLIMIT_CPU, cpu_seconds, cpu_seconds + 1);  // SIGXCPU first, which says what happened
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers reserve terabytes
  const uint64_t bytes = AddressSpaceBytes() + limits.memory_bytes;
  Limit(RLIMIT_AS, bytes, bytes);
#endif
}

std::string Answer(const std::function<std::string()>& body) {
  try {
    return kAnswer + body();
  } catch (const Error& error) {
    return fmt::format("{}{}{}", kError, static_cast<char>('0' + static_cast<int>(error.code())),
                       error.what());
  } catch (const std::bad_alloc&) {
    return fmt::format("{}2the file asks for more memory than allowed; it is damaged or too large",
                       kError);
  } catch (const std::exception& error) {
    return fmt::format("{}1{}", kError, error.what());
  }
}

[[noreturn]] void BeChild(int fd, const ChildLimits& limits,
                          const std::function<std::string()>& body) {
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT, SIGBUS})
    signal(signal_number, SIG_DFL);
  ApplyLimits(limits);
  const std::string answer = Answer(body);
  std::size_t done = 0;
  while (done < answer.size()) {
    const ssize_t wrote = write(fd, answer.data() + done, answer.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(1);
    done += static_cast<std::size_t>(wrote);
  }
  _exit(0);
}

// Everything the child writes, until it closes its end; false at the deadline.
bool ReadUntil(int fd, int64_t deadline_ns, std::string& text) {
  char buffer[1 << 16];
  while (true) {
    const int64_t left_ms = (deadline_ns - MonotonicNs()) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left_ms, 1000))) <= 0) continue;
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string Fate(int status, bool in_time, const ChildLimits& limits) {
  if (!in_time) return fmt::format("was not done after {} s", limits.wall_seconds);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return fmt::format("used more than {} s of CPU", limits.cpu_seconds);
  }
  if (WIFSIGNALED(status)) return fmt::format("crashed ({})", strsignal(WTERMSIG(status)));
  return fmt::format("ended early (exit code {})", WEXITSTATUS(status));
}

[[noreturn]] void ThrowAgain(ExitCode code, const std::string& message) {
  switch (code) {
    case ExitCode::kBadInput:
      throw DataError(message);
    case ExitCode::kCheckFailed:
      throw CheckError(message);
    case ExitCode::kUnavailable:
      throw UnavailableError(message);
    default:
      throw DeviceError(message);
  }
}

}  // namespace

ChildLimits ChildLimits::ForFile(const std::filesystem::path& path) {
  std::error_code ignored;
  const uint64_t bytes = std::filesystem::file_size(path, ignored);
  if (ignored) return {};
  ChildLimits limits;
  limits.memory_bytes += bytes * 64;
  limits.cpu_seconds += static_cast<int>(std::min<uint64_t>(bytes >> 20, 3600));
  limits.wall_seconds += 4 * static_cast<int>(std::min<uint64_t>(bytes >> 20, 3600));
  return limits;
}

std::string RunInChild(const std::string& what, const ChildLimits& limits,
                       const std::function<std::string()>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw DeviceError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw DeviceError(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    BeChild(ends[1], limits, body);
  }
  close(ends[1]);
  std::string answer;
  const bool in_time =
      ReadUntil(ends[0], MonotonicNs() + int64_t{limits.wall_seconds} * 1'000'000'000, answer);
  close(ends[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool whole = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0 && !answer.empty();
  if (!whole) {
    throw DataError(fmt::format("{}: its reader {}; the file is damaged, re-create it", what,
                                Fate(status, in_time, limits)));
  }
  if (answer[0] == kAnswer) return answer.substr(1);
  ThrowAgain(static_cast<ExitCode>(answer[1] - '0'), answer.substr(2));
}

}  // namespace teller::h5
