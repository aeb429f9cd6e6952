#include "src/workload/serve/control_channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"

namespace teller::serve {
namespace {

constexpr uint32_t kHelloMagic = 0x54484c4f;  // 'THLO'
constexpr uint32_t kMaxWords = 1u << 22;      // of a message
constexpr int kRetryMs = 20;                  // between attempts to reach rank 0
constexpr int kPollMs = 200;                  // between looks at signals
constexpr int64_t kNsPerSecond = 1000000000;

struct Hello {
  uint32_t magic = kHelloMagic;
  int32_t rank = 0;
  int32_t world_size = 0;
  uint32_t reserved = 0;
  uint64_t config_hash = 0;
};

enum class Answer : int32_t { kWelcome = 0, kOtherConfig = 1, kOtherWorld = 2, kRankTaken = 3 };

struct Welcome {
  Answer answer = Answer::kWelcome;
  int32_t store_port = 0;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

std::string Errno() { return std::strerror(errno); }

sockaddr_in Resolve(const std::string& address, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw DeviceError("resolving address '" + address + "': " + gai_strerror(error));
  }
  sockaddr_in result = {};
  std::memcpy(&result, found->ai_addr, sizeof result);
  freeaddrinfo(found);
  return result;
}

/// Waits for `events`; false after `wait_ms`. A signal to stop is an Error.
bool WaitReady(int fd, short events, int64_t wait_ms) {
  const int64_t until = MonotonicNs() + wait_ms * 1000000;
  for (;;) {
    ThrowIfInterrupted();
    const int64_t left_ms = (until - MonotonicNs()) / 1000000;
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, kPollMs)));
    if (ready > 0) return true;
    if (left_ms <= 0) return false;
  }
}

/// False when the other end is closed or broken, or takes nothing for `timeout_s`.
bool SendAll(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, void* data, std::size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void Tune(int fd, int timeout_s) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const timeval timeout = {timeout_s, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

Socket Listen(const ControlChannel::Options& options) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in address = Resolve(options.address, options.port);
  if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.fd(), options.world_size) != 0) {
    throw DeviceError("listening for the other ranks on " + options.address + ":" +
                      std::to_string(options.port) + ": " + Errno() +
                      "; choose another --master-port or end the process that holds it");
  }
  return socket;
}

Socket Connect(const ControlChannel::Options& options) {
  const sockaddr_in address = Resolve(options.address, options.port);
  const int64_t until = MonotonicNs() + options.timeout_s * kNsPerSecond;
  for (;;) {
    ThrowIfInterrupted();
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return socket;
    }
    if (MonotonicNs() > until) {
      throw DeviceError("reaching rank 0 at " + options.address + ":" +
                        std::to_string(options.port) + " for " + std::to_string(options.timeout_s) +
                        " s: " + Errno() + "; is rank 0 running?");
    }
    poll(nullptr, 0, kRetryMs);
  }
}

std::string Refusal(Answer answer) {
  switch (answer) {
    case Answer::kOtherConfig:
      return "its configuration differs; start all ranks with one file";
    case Answer::kOtherWorld:
      return "its --world-size or rank does not fit rank 0's --world-size";
    case Answer::kRankTaken:
      return "another process already has its rank";
    case Answer::kWelcome:
      break;
  }
  return "it answered something else; is another program listening there?";
}

Answer Judge(const Hello& hello, const ControlChannel::Options& options, bool taken) {
  if (hello.world_size != options.world_size) return Answer::kOtherWorld;
  if (hello.config_hash != options.config_hash) return Answer::kOtherConfig;
  return taken ? Answer::kRankTaken : Answer::kWelcome;
}

}  // namespace

std::string LocalAddressTowards(const std::string& address) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in remote = Resolve(address, 9);
  sockaddr_in local = {};
  socklen_t size = sizeof local;
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&remote), sizeof remote) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    throw DeviceError("finding the route to '" + address + "': " + Errno() + "; give --local-addr");
  }
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &local.sin_addr, text, sizeof text);
  return text;
}

struct ControlChannel::State {
  explicit State(const Options& options) : options(options), peers(PeerCount(options)) {}
  ~State() {
    if (watcher.joinable()) {
      const uint64_t one = 1;
      if (write(wake.fd(), &one, sizeof one) == sizeof one) watcher.join();
    }
  }
  static std::size_t PeerCount(const Options& options) {
    return options.rank == 0 ? static_cast<std::size_t>(options.world_size - 1) : std::size_t{1};
  }
  int RankOf(std::size_t peer) const { return options.rank == 0 ? static_cast<int>(peer) + 1 : 0; }

  void Meet(int store_port);
  bool Introduce(Socket socket, int store_port);
  int Join();
  void WatchLoop(const std::function<void(const std::string&)>& on_death);

  const Options options;
  std::vector<Socket> peers;  ///< rank 0: of rank i + 1; others: of rank 0
  std::atomic<bool> leaving{false};
  Socket wake;
  std::thread watcher;
};

/// Rank 0: accepts every other rank once.
void ControlChannel::State::Meet(int store_port) {
  const Socket listener = Listen(options);
  const int64_t until = MonotonicNs() + options.timeout_s * kNsPerSecond;
  for (std::size_t met = 0; met < peers.size();) {
    const int64_t left_ms = (until - MonotonicNs()) / 1000000;
    if (left_ms <= 0 || !WaitReady(listener.fd(), POLLIN, left_ms)) {
      throw DeviceError("waiting for " + std::to_string(peers.size() - met) + " more rank(s) on " +
                        options.address + ":" + std::to_string(options.port) +
                        ": none came within " + std::to_string(options.timeout_s) +
                        " s; are they running?");
    }
    Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.open() && Introduce(std::move(socket), store_port)) ++met;
  }
}

/// True where the process at the other end is a rank that was missing. A stranger is dropped.
bool ControlChannel::State::Introduce(Socket socket, int store_port) {
  Tune(socket.fd(), 2);
  Hello hello;
  if (!ReceiveAll(socket.fd(), &hello, sizeof hello) || hello.magic != kHelloMagic) return false;
  const bool fits = hello.rank >= 1 && hello.rank < options.world_size;
  const std::size_t peer = fits ? static_cast<std::size_t>(hello.rank - 1) : 0;
  const Welcome welcome = {fits ? Judge(hello, options, peers[peer].open()) : Answer::kOtherWorld,
                           store_port};
  if (!SendAll(socket.fd(), &welcome, sizeof welcome)) return false;
  if (welcome.answer != Answer::kWelcome) {
    throw DeviceError("rank " + std::to_string(hello.rank) +
                      " was turned away: " + Refusal(welcome.answer));
  }
  Tune(socket.fd(), options.timeout_s);
  peers[peer] = std::move(socket);
  return true;
}

/// Others: introduces itself to rank 0; answers the store's port.
int ControlChannel::State::Join() {
  Socket socket = Connect(options);
  Tune(socket.fd(), options.timeout_s);
  const Hello hello = {
      .rank = options.rank, .world_size = options.world_size, .config_hash = options.config_hash};
  Welcome welcome;
  const bool answered = SendAll(socket.fd(), &hello, sizeof hello) &&
                        WaitReady(socket.fd(), POLLIN, options.timeout_s * 1000) &&
                        ReceiveAll(socket.fd(), &welcome, sizeof welcome);
  if (!answered || welcome.answer != Answer::kWelcome) {
    throw DeviceError("joining rank 0 at " + options.address + ":" + std::to_string(options.port) +
                      " as rank " + std::to_string(options.rank) + ": " +
                      (answered ? Refusal(welcome.answer) : "it hung up before it answered"));
  }
  peers[0] = std::move(socket);
  return welcome.store_port;
}

void ControlChannel::State::WatchLoop(const std::function<void(const std::string&)>& on_death) {
  std::vector<pollfd> entries = {{wake.fd(), POLLIN, 0}};
  for (const Socket& peer : peers) entries.push_back({peer.fd(), POLLRDHUP, 0});
  for (;;) {
    if (poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[0].revents != 0 || leaving) return;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      on_death("rank " + std::to_string(RankOf(i - 1)) + " is gone (its process ended)");
      return;
    }
  }
}

ControlChannel::ControlChannel(const Options& options, const std::function<int()>& store_port)
    : state_(std::make_unique<State>(options)) {
  state_->wake = Socket(eventfd(0, EFD_CLOEXEC));
  if (options.rank != 0) {
    store_port_ = state_->Join();
  } else if (options.world_size > 1) {
    store_port_ = store_port();
    state_->Meet(store_port_);
  }
}

ControlChannel::~ControlChannel() = default;

void ControlChannel::Send(std::span<const int32_t> words) {
  const auto count = static_cast<uint32_t>(words.size());
  std::vector<int32_t> message = {static_cast<int32_t>(count)};
  message.insert(message.end(), words.begin(), words.end());
  for (std::size_t i = 0; i < state_->peers.size(); ++i) {
    if (!SendAll(state_->peers[i].fd(), message.data(), message.size() * sizeof(int32_t))) {
      throw DeviceError("sending a step to rank " + std::to_string(state_->RankOf(i)) + ": " +
                        Errno());
    }
  }
}

std::vector<int32_t> ControlChannel::Receive(int wait_ms) {
  const int fd = state_->peers[0].fd();
  pollfd entry = {fd, POLLIN, 0};
  if (poll(&entry, 1, wait_ms) <= 0) return {};
  uint32_t count = 0;
  std::vector<int32_t> words;
  bool whole = ReceiveAll(fd, &count, sizeof count) && count <= kMaxWords;
  if (whole) {
    words.resize(count);
    whole = ReceiveAll(fd, words.data(), count * sizeof(int32_t));
  }
  if (!whole) throw DeviceError("rank 0 is gone (its process ended)");
  return words;
}

void ControlChannel::Watch(std::function<void(const std::string&)> on_death) {
  if (state_->peers.empty()) return;
  state_->watcher =
      std::thread([this, on_death = std::move(on_death)] { state_->WatchLoop(on_death); });
}

void ControlChannel::Leave() { state_->leaving = true; }

void ControlChannel::AwaitOthersLeaving(int wait_ms) {
  const int64_t until = MonotonicNs() + int64_t{wait_ms} * 1000000;
  for (const Socket& peer : state_->peers) {
    pollfd entry = {peer.fd(), POLLRDHUP, 0};
    const int64_t left_ms = (until - MonotonicNs()) / 1000000;
    while (left_ms > 0 && poll(&entry, 1, static_cast<int>(left_ms)) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace teller::serve
