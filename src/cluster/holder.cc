#include "src/cluster/holder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "src/cluster/message.h"
#include "src/cluster/process_table.h"
#include "src/core/error.h"

namespace teller::cluster {
namespace {

using nlohmann::json;

/// A step of setting up failed: its name and errno, told to the runner.
struct SetupFailure {
  std::string what;
};

void Require(bool done, const std::string& what) {
  if (!done) throw SetupFailure{what + ": " + std::strerror(errno)};
}

void WriteText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  Require(fd >= 0, path);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  close(fd);
  errno = error;
  Require(written, path);
}

void EnterUserNamespace() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  Require(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER)");
  prctl(PR_SET_DUMPABLE, 1);  // else /proc/self belongs to root in a process that changed its user
  WriteText("/proc/self/setgroups", "deny");
  WriteText("/proc/self/uid_map", fmt::format("0 {} 1", uid));
  WriteText("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

/// A /dev/shm of the node's own in which the run's folder stands at its usual path.
void MakePrivateShm(const std::filesystem::path& run_dir) {
  Require(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
  const int folder = open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  Require(folder >= 0, run_dir);
  Require(mount("teller", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0,
          "tmpfs on /dev/shm");
  Require(mkdir(run_dir.c_str(), 0700) == 0, run_dir);
  const std::string source = fmt::format("/proc/self/fd/{}", folder);
  Require(mount(source.c_str(), run_dir.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
          "the run's folder in /dev/shm");
  close(folder);
}

void MoveClock(int64_t offset_ns) {
  Require(unshare(CLONE_NEWTIME) == 0, "unshare(CLONE_NEWTIME)");
  int64_t seconds = offset_ns / 1'000'000'000, rest = offset_ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  WriteText("/proc/self/timens_offsets", fmt::format("monotonic {} {}", seconds, rest));
}

void SetUpNode(const HubSpec& spec, const NodeSpec& node) {
  if (spec.namespaces) {
    Require(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "unshare(CLONE_NEWNET | CLONE_NEWNS)");
    MakePrivateShm(spec.run_dir);
  }
  if (node.clock_offset_ns != 0) MoveClock(node.clock_offset_ns);
}

/// Closes every descriptor but the standard ones and `kept`, and points the standard ones at
/// /dev/null.
void DropDescriptors(std::vector<int> kept) {
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  std::sort(kept.begin(), kept.end());
  unsigned first = 3;
  for (const int fd : kept) {
    if (static_cast<unsigned>(fd) > first) close_range(first, static_cast<unsigned>(fd) - 1, 0);
    first = static_cast<unsigned>(fd) + 1;
  }
  close_range(first, ~0u, 0);
}

void ResetSignals() {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
    signal(signal_number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Ends all descendants; those that lost their parent are ours by PR_SET_CHILD_SUBREAPER.
void EndDescendants() {
  for (int attempt = 0; attempt < 500; ++attempt) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> left = Descendants(getpid());
    if (left.empty()) return;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    usleep(10'000);
  }
}

/// What the new process does between fork and exec. Only returns (an errno value) on failure.
int BecomeProcess(const json& request, const std::vector<int>& fds, pid_t holder) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != holder) return ESRCH;
  ResetSignals();
  setsid();
  for (int target = 0; target < 3; ++target) {
    if (dup2(fds[static_cast<std::size_t>(target)], target) < 0) return errno;
  }
  if (request.at("batch").get<bool>()) {
    const sched_param parameter{};
    if (sched_setscheduler(0, SCHED_BATCH, &parameter) != 0) return errno;
  }
  if (const int cpu = request.at("cpu").get<int>(); cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return errno;
  }
  const auto folder = request.at("folder").get<std::string>();
  if (!folder.empty() && chdir(folder.c_str()) != 0) return errno;
  for (const auto& [name, value] : request.at("environment").items()) {
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  std::vector<std::string> words = request.at("argv").get<std::vector<std::string>>();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return errno;
}

/// One node's holder: spawns on demand, remembers how its children ended, goes when the runner
/// goes.
class Holder {
 public:
  explicit Holder(int socket) : socket_(socket) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  void Serve() {
    const json greeting = {{"pid", getpid()}};
    if (SendMessage(socket_, greeting) != 0) return;
    while (ServeOnce()) {
    }
  }

 private:
  bool ServeOnce() {
    pollfd waiting[2] = {{.fd = socket_, .events = POLLIN, .revents = 0},
                         {.fd = signals_, .events = POLLIN, .revents = 0}};
    poll(waiting, 2, 1000);
    if (!DrainSignals()) return false;
    Reap();
    if (waiting[0].revents == 0) return true;
    auto message = ReceiveMessage(socket_);
    return message && Answer(*message);
  }

  /// False when asked to end.
  bool DrainSignals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGTERM) return false;
    }
    return true;
  }

  void Reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (const auto found = status_.find(pid); found != status_.end()) found->second = status;
    }
  }

  bool Answer(Message& message) {
    const std::string op = message.body.value("op", "");
    if (op == "spawn") return Spawn(message);
    if (op == "tap") return Tap(message.body.at("name").get<std::string>());
    if (op == "status") return Status(message.body.at("pid").get<pid_t>());
    return false;
  }

  bool Status(pid_t pid) {
    Reap();
    json answer = json::object();
    const auto found = status_.find(pid);
    if (found != status_.end() && found->second) {
      answer["status"] = *found->second;
      status_.erase(found);
    }
    return SendMessage(socket_, answer) == 0;
  }

  bool Tap(const std::string& name) {
    const int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (tap < 0) return Fail(errno, "/dev/net/tun");
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    name.copy(request.ifr_name, sizeof request.ifr_name - 1);
    const bool made = ioctl(tap, TUNSETIFF, &request) == 0;
    const bool sent =
        made ? SendMessage(socket_, json::object(), std::span(&tap, 1)) == 0 : Fail(errno, name);
    close(tap);
    return sent;
  }

  bool Spawn(Message& message) {
    const bool sent =
        message.fds.size() == 3 ? Start(message) : Fail(EPROTO, "descriptors of the new process");
    for (const int fd : message.fds) close(fd);
    return sent;
  }

  bool Fail(int error, const std::string& what) {
    return SendMessage(socket_, {{"error", error}, {"what", what}}) == 0;
  }

  bool Start(const Message& message) {
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) return Fail(errno, "pipe");
    const pid_t holder = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      const int error = BecomeProcess(message.body, message.fds, holder);
      [[maybe_unused]] const ssize_t told = write(failure[1], &error, sizeof error);
      _exit(127);
    }
    const int fork_error = errno;
    close(failure[1]);
    int error = 0;
    const bool failed = pid > 0 && read(failure[0], &error, sizeof error) == sizeof error;
    close(failure[0]);
    if (pid < 0) return Fail(fork_error, "fork");
    if (failed) return Fail(error, "exec");  // reaped later, unknown to status_
    return Announce(pid);
  }

  bool Announce(pid_t pid) {
    status_[pid] = std::nullopt;
    const auto stat = ReadProcessStat(pid);  // there even when it has ended: only we reap
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    const json answer = {{"pid", pid}, {"start_ticks", stat ? stat->start_ticks : 0}};
    const bool sent = SendMessage(socket_, answer, std::span(&pidfd, pidfd >= 0 ? 1 : 0)) == 0;
    if (pidfd >= 0) close(pidfd);
    return sent;
  }

  int socket_;
  int signals_ = -1;
  std::map<pid_t, std::optional<int>> status_;
};

[[noreturn]] void RunHolder(const HubSpec& spec, std::size_t index) {
  prctl(PR_SET_NAME, "teller-node");
  const int socket = spec.sockets[index];
  for (const int other : spec.sockets) {
    if (other != socket) close(other);
  }
  try {
    SetUpNode(spec, spec.nodes[index]);
    Holder(socket).Serve();
  } catch (const SetupFailure& failure) {
    SendMessage(socket, {{"error", failure.what}});
  } catch (const std::exception& failure) {
    SendMessage(socket, {{"error", failure.what()}});
  }
  EndDescendants();
  _exit(0);
}

std::vector<pid_t> ForkHolders(const HubSpec& spec) {
  std::vector<pid_t> holders;
  for (std::size_t index = 0; index < spec.nodes.size(); ++index) {
    const pid_t pid = fork();
    if (pid == 0) RunHolder(spec, index);
    if (pid > 0) holders.push_back(pid);
  }
  for (const int socket : spec.sockets) close(socket);
  return holders;
}

/// Waits for the holders. When the runner has gone they notice themselves; this is for one that
/// lost its socket.
void WaitForHolders(std::vector<pid_t> holders, pid_t runner) {
  while (!holders.empty()) {
    if (getppid() != runner) {
      for (const pid_t pid : holders) kill(pid, SIGTERM);
    }
    for (pid_t pid; (pid = waitpid(-1, nullptr, WNOHANG)) > 0;) std::erase(holders, pid);
    usleep(50'000);
  }
}

[[noreturn]] void RunHub(const HubSpec& spec, pid_t runner) {
  prctl(PR_SET_NAME, "teller-hub");
  setsid();
  ResetSignals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<int> kept = spec.sockets;
  kept.push_back(spec.start_fd);
  DropDescriptors(kept);
  char go = 0;
  if (read(spec.start_fd, &go, 1) != 1) _exit(0);
  close(spec.start_fd);
  try {
    if (spec.user_namespace) EnterUserNamespace();
    WaitForHolders(ForkHolders(spec), runner);
  } catch (const SetupFailure& failure) {
    for (const int socket : spec.sockets) SendMessage(socket, {{"error", failure.what}});
  }
  EndDescendants();  // of a holder that was killed
  _exit(0);
}

}  // namespace

pid_t StartHub(const HubSpec& spec) {
  const pid_t runner = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunHub(spec, runner);
  if (pid < 0) {
    throw DeviceError(
        fmt::format("start the process that keeps the nodes: {}", std::strerror(errno)));
  }
  return pid;
}

}  // namespace teller::cluster
