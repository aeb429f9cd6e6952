#include "src/collect/relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <new>
#include <optional>

#include "src/collect/log_stamp.h"
#include "src/collect/write_all.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr std::size_t kBufferBytes = 65536;
constexpr int64_t kWaitStepNs = 1'000'000;

/// One stream on its way through.
struct Stream {
  int from;
  int to;
  int copy;
  int stamps;
  uint64_t bytes = 0;                        ///< that came
  std::optional<std::size_t> orphaned = {};  ///< bytes still to copy, once the collector is gone
};

bool WriteThrough(int file, const char* data, std::size_t size) {
  for (;;) {
    const std::size_t done = WriteAll(file, data, size);
    if (done == size) return true;
    if (errno != EAGAIN) return false;
    data += done;
    size -= done;
    pollfd ready{file, POLLOUT, 0};  // somebody made our stdout non-blocking
    poll(&ready, 1, -1);
  }
}

void EndCopy(Stream& stream) {
  close(stream.copy);
  close(stream.stamps);
  stream.copy = stream.stamps = -1;
}

/// The stamp first, so that no byte is there without one. With the disk full the target matters
/// more; a copy with a hole would be worth nothing.
void Copy(Stream& stream, const char* data, std::size_t size, std::atomic<uint64_t>& lost_bytes) {
  const LogStamp stamp{stream.bytes + size, MonotonicNs(), RealtimeNs()};
  const bool whole = stream.copy >= 0 &&
                     WriteAll(stream.stamps, reinterpret_cast<const char*>(&stamp), sizeof stamp) ==
                         sizeof stamp &&
                     WriteAll(stream.copy, data, size) == size;
  stream.bytes += size;
  if (whole) return;
  if (stream.copy >= 0) EndCopy(stream);
  lost_bytes.fetch_add(size);
}

/// Whether `size` bytes that were just read go to the copy. What was on its way when the collector
/// died still does, for a successor to find; what comes later would only fill the disk.
bool IsCopied(Stream& stream, std::size_t size, pid_t collector) {
  if (getppid() == collector) return true;
  if (!stream.orphaned) {
    int waiting = 0;
    ioctl(stream.from, FIONREAD, &waiting);
    stream.orphaned = size + static_cast<std::size_t>(waiting);
  }
  if (*stream.orphaned < size) return false;
  *stream.orphaned -= size;
  return true;
}

/// False at the end of the stream (EIO where it is a terminal's), or when its reader has gone:
/// closing then gives the target the SIGPIPE that it would have had without us.
bool PassOn(Stream& stream, char* buffer, pid_t collector, std::atomic<uint64_t>& lost_bytes) {
  const ssize_t got = read(stream.from, buffer, kBufferBytes);
  if (got < 0) return errno == EINTR;
  if (got == 0) return false;
  const auto size = static_cast<std::size_t>(got);
  if (IsCopied(stream, size, collector)) {
    Copy(stream, buffer, size, lost_bytes);
  } else if (stream.copy >= 0) {
    EndCopy(stream);
  }
  return WriteThrough(stream.to, buffer, size);
}

volatile sig_atomic_t window_changed;

void OnWindowChange(int) { window_changed = 1; }

void CopyWindowSize(int from, int to) {
  winsize size;
  if (ioctl(from, TIOCGWINSZ, &size) == 0) ioctl(to, TIOCSWINSZ, &size);
}

void FollowWindow(const std::array<Stream, 2>& streams) {
  if (window_changed == 0) return;
  window_changed = 0;
  for (const Stream& stream : streams) {
    if (stream.from >= 0) CopyWindowSize(stream.to, stream.from);
  }
}

[[noreturn]] void RunRelay(std::array<Stream, 2> streams, pid_t collector,
                           std::atomic<uint64_t>& lost_bytes) {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_IGN);
  signal(SIGWINCH, OnWindowChange);
  prctl(PR_SET_NAME, "teller-relay");
  static char buffer[kBufferBytes];
  while (streams[0].from >= 0 || streams[1].from >= 0) {
    FollowWindow(streams);
    std::array<pollfd, 2> polled{pollfd{streams[0].from, POLLIN, 0},
                                 pollfd{streams[1].from, POLLIN, 0}};
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (polled[i].revents == 0 || PassOn(streams[i], buffer, collector, lost_bytes)) continue;
      close(streams[i].from);
      streams[i].from = -1;
    }
  }
  _exit(0);
}

int OpenCopy(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    throw DeviceError(fmt::format("{}: cannot write: {}", path.string(), strerror(errno)));
  }
  return file;
}

/// A number that both processes see.
std::atomic<uint64_t>* MapCounter() {
  void* memory = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw DeviceError(fmt::format("no memory for the output relay: {}", strerror(errno)));
  return new (memory) std::atomic<uint64_t>(0);
}

struct Channel {
  int read_end, write_end;
};

Channel MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw DeviceError(fmt::format("cannot make a pipe: {}", strerror(errno)));
  }
  return {ends[0], ends[1]};
}

/// A terminal for the target that changes no byte; input and job control stay with the real one.
/// Nothing where the system has none left.
std::optional<Channel> MakeTerminal(int real) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return std::nullopt;
  char name[64];
  const bool named =
      grantpt(master) == 0 && unlockpt(master) == 0 && ptsname_r(master, name, sizeof name) == 0;
  const int slave = named ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
  if (slave < 0) {
    close(master);
    return std::nullopt;
  }
  termios mode;
  if (tcgetattr(slave, &mode) == 0) {
    cfmakeraw(&mode);
    tcsetattr(slave, TCSANOW, &mode);
  }
  CopyWindowSize(real, slave);
  return Channel{master, slave};
}

Channel MakeChannel(int real) {
  if (isatty(real) != 0) {
    if (const std::optional<Channel> terminal = MakeTerminal(real)) return *terminal;
  }
  return MakePipe();
}

}  // namespace

Relay::Relay(const RelayCopy& stdout_copy, const RelayCopy& stderr_copy) {
  const int copies[] = {OpenCopy(stdout_copy.text), OpenCopy(stdout_copy.stamps),
                        OpenCopy(stderr_copy.text), OpenCopy(stderr_copy.stamps)};
  const Channel out = MakeChannel(STDOUT_FILENO), err = MakeChannel(STDERR_FILENO);
  lost_bytes_ = MapCounter();
  const pid_t collector = getpid();
  pid_ = fork();
  if (pid_ < 0)
    throw DeviceError(fmt::format("cannot start the output relay: {}", strerror(errno)));
  if (pid_ == 0) {
    close(out.write_end);
    close(err.write_end);
    RunRelay({Stream{out.read_end, STDOUT_FILENO, copies[0], copies[1]},
              Stream{err.read_end, STDERR_FILENO, copies[2], copies[3]}},
             collector, *lost_bytes_);
  }
  for (const int file : copies) close(file);
  for (const int file : {out.read_end, err.read_end}) close(file);
  pipes_ = {out.write_end, err.write_end};
}

uint64_t Relay::lost_bytes() const { return lost_bytes_->load(); }

void Relay::ClosePipes() {
  for (int* file : {&pipes_.stdout_write, &pipes_.stderr_write}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

bool Relay::WaitEnd(int64_t timeout_ns) {
  if (pid_ < 0) return true;
  const int64_t end_ns = MonotonicNs() + timeout_ns;
  const timespec step{0, kWaitStepNs};
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (MonotonicNs() >= end_ns) return false;
    nanosleep(&step, nullptr);
  }
  pid_ = -1;
  return true;
}

Relay::~Relay() {
  ClosePipes();
  munmap(lost_bytes_, sizeof *lost_bytes_);
}

}  // namespace teller::collect
