#include "src/collect/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "src/cluster/journal.h"
#include "src/collect/run_id.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr uint64_t kMagic = 0x31564452'4c4c4554;  // 'TELLRDV1'
constexpr std::size_t kMaxHosts = 1024;
constexpr int kBurst = 8;       // probes
constexpr int kKeptABurst = 2;  // those with the shortest round trip
constexpr std::chrono::seconds kBurstPeriod(1);
constexpr int kAnswerTimeoutMs = 2000;
constexpr timespec kRetry{0, 100'000'000};

enum MessageKind : uint64_t { kHello = 1, kWelcome = 2, kNameTaken = 3, kProbe = 4, kAnswer = 5 };

/// Everything that is sent: 160 bytes, little-endian as the machines that run us.
struct Message {
  uint64_t magic = kMagic;
  uint64_t kind = 0;
  int64_t sent_ns = 0, received_ns = 0;
  char node[64] = {};
  char run_id[64] = {};
};
static_assert(sizeof(Message) == 160);

void Put(const std::string& text, char (&field)[64]) {
  memcpy(field, text.data(), std::min(text.size(), sizeof field - 1));
}

std::string Get(const char (&field)[64]) { return {field, strnlen(field, sizeof field)}; }

/// A socket that closes itself.
class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  ~Socket() {
    if (file_ >= 0) close(file_);
  }
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  int file() const { return file_; }

 private:
  int file_;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses Resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const int number = std::atoi(port.c_str());
  if (colon == 0 || port.empty() || port.find_first_not_of("0123456789") != std::string::npos ||
      number < 1 || number > 65535) {
    throw ConfigError(
        fmt::format("--rendezvous '{}': expected HOST:PORT, for example node0:29700", address));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    throw ConfigError(
        fmt::format("--rendezvous '{}': cannot find the host: {}", address, gai_strerror(error)));
  }
  return Addresses(found);
}

bool SendAll(int file, const Message& message) {
  return send(file, &message, sizeof message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

/// False where the other is gone, silent for too long, or speaks another language.
bool Receive(int file, Message& message) {
  auto* bytes = reinterpret_cast<char*>(&message);
  for (std::size_t done = 0; done < sizeof message;) {
    pollfd ready{file, POLLIN, 0};
    if (poll(&ready, 1, kAnswerTimeoutMs) <= 0) return false;
    const ssize_t got = recv(file, bytes + done, sizeof message - done, 0);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return message.magic == kMagic;
}

void SendAtOnce(int file) {
  const int on = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// The one whose address it is: answers the others.
class AnsweringHost final : public Rendezvous {
 public:
  AnsweringHost(Socket listener, const RendezvousOptions& options, std::string run_id)
      : run_id_(std::move(run_id)), node_(options.node), listener_(std::move(listener)) {
    names_.insert(node_);
    if (pipe2(stop_pipe_, O_CLOEXEC) != 0)
      throw DeviceError(fmt::format("cannot make a pipe: {}", strerror(errno)));
    thread_ = std::thread([this] { Run(); });
  }
  ~AnsweringHost() override {
    End();
    for (const int file : stop_pipe_) close(file);
  }

  const std::string& run_id() const override { return run_id_; }
  std::vector<trace::ClockProbe> Finish() override {
    End();
    return {};
  }

 private:
  struct Peer {
    Socket socket;
    std::string name;
    Message message;
    std::size_t received = 0;  ///< bytes of `message`
  };

  void End() {
    const ssize_t ignored = write(stop_pipe_[1], "", 1);
    if (ignored >= 0 && thread_.joinable()) thread_.join();
  }

  void Run() {
    pthread_setname_np(pthread_self(), "teller-meet");
    for (;;) {
      std::vector<pollfd> waited = {{stop_pipe_[0], POLLIN, 0}, {listener_.file(), POLLIN, 0}};
      for (const Peer& peer : peers_) waited.push_back({peer.socket.file(), POLLIN, 0});
      if (poll(waited.data(), waited.size(), -1) < 0) continue;
      if (waited[0].revents != 0) return;
      for (std::size_t i = peers_.size(); i-- > 0;) {
        if (waited[i + 2].revents != 0 && !Listen(peers_[i])) Forget(i);
      }
      if (waited[1].revents != 0) Accept();
    }
  }

  void Accept() {
    Socket peer(accept4(listener_.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.file() < 0 || peers_.size() >= kMaxHosts) return;
    SendAtOnce(peer.file());
    peers_.push_back({std::move(peer), "", {}});
  }

  void Forget(std::size_t index) {
    names_.erase(peers_[index].name);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  /// False where the peer is to be forgotten.
  bool Listen(Peer& peer) {
    auto* bytes = reinterpret_cast<char*>(&peer.message);
    const ssize_t got =
        recv(peer.socket.file(), bytes + peer.received, sizeof(Message) - peer.received, 0);
    const int64_t received_ns = MonotonicNs();
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    peer.received += static_cast<std::size_t>(got);
    if (peer.received < sizeof(Message)) return true;
    peer.received = 0;
    return peer.message.magic == kMagic && Answer(peer, received_ns);
  }

  bool Answer(Peer& peer, int64_t received_ns) {
    Message answer;
    Put(node_, answer.node);
    if (peer.message.kind == kHello && peer.name.empty()) {
      const std::string name = Get(peer.message.node);
      const bool free = names_.insert(name).second;
      if (free) peer.name = name;
      answer.kind = free ? kWelcome : kNameTaken;
      Put(run_id_, answer.run_id);
      return SendAll(peer.socket.file(), answer) && free;
    }
    if (peer.message.kind != kProbe || peer.name.empty()) return false;
    answer.kind = kAnswer;
    answer.received_ns = received_ns;
    answer.sent_ns = MonotonicNs();
    return SendAll(peer.socket.file(), answer);
  }

  std::string run_id_, node_;
  Socket listener_;
  std::vector<Peer> peers_;      ///< of the thread
  std::set<std::string> names_;  ///< of the thread
  int stop_pipe_[2] = {-1, -1};
  std::thread thread_;
};

/// One of the others: asks.
class AskingHost final : public Rendezvous {
 public:
  AskingHost(Socket socket, const RendezvousOptions& options, const Message& welcome)
      : run_id_(Get(welcome.run_id)),
        node_(options.node),
        other_(Get(welcome.node)),
        socket_(std::move(socket)) {
    cluster::CheckRunId(run_id_);
    thread_ = std::thread([this] { Run(); });
  }
  ~AskingHost() override { End(); }

  const std::string& run_id() const override { return run_id_; }
  std::vector<trace::ClockProbe> Finish() override {
    End();
    return std::move(probes_);
  }

 private:
  void End() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void Run() {
    pthread_setname_np(pthread_self(), "teller-meet");
    bool last = false;
    while (Burst() && !last) {
      std::unique_lock lock(mutex_);
      last = wake_.wait_for(lock, kBurstPeriod, [this] { return ended_; });
    }
  }

  /// False where the other has gone.
  bool Burst() {
    std::vector<trace::ClockProbe> burst;
    for (int i = 0; i < kBurst; ++i) {
      Message probe, answer;
      probe.kind = kProbe;
      probe.sent_ns = MonotonicNs();
      if (!SendAll(socket_.file(), probe) || !Receive(socket_.file(), answer)) break;
      burst.push_back({.from = node_,
                       .to = other_,
                       .sent_ns = probe.sent_ns,
                       .received_ns = answer.received_ns,
                       .answered_ns = answer.sent_ns,
                       .returned_ns = MonotonicNs()});
    }
    const bool whole = burst.size() == kBurst;
    const auto round_trip = [](const trace::ClockProbe& probe) {
      return (probe.returned_ns - probe.sent_ns) - (probe.answered_ns - probe.received_ns);
    };
    std::ranges::sort(burst, {}, round_trip);
    burst.resize(std::min<std::size_t>(burst.size(), kKeptABurst));
    probes_.insert(probes_.end(), burst.begin(), burst.end());
    return whole;
  }

  std::string run_id_, node_, other_;
  Socket socket_;
  std::vector<trace::ClockProbe> probes_;  ///< of the thread until End
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;  ///< guarded by mutex_
  std::thread thread_;
};

/// A listening socket where the address is ours and free.
Socket Bind(const addrinfo& address) {
  Socket listener(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(listener.file(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener.file() < 0 || bind(listener.file(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(listener.file(), 128) != 0)
    return Socket();
  return listener;
}

Socket Connect(const addrinfo& address) {
  Socket peer(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{2, 0};
  setsockopt(peer.file(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (peer.file() < 0 || connect(peer.file(), address.ai_addr, address.ai_addrlen) != 0)
    return Socket();
  SendAtOnce(peer.file());
  return peer;
}

std::unique_ptr<Rendezvous> Ask(const RendezvousOptions& options, Socket peer) {
  Message hello, welcome;
  hello.kind = kHello;
  Put(options.node, hello.node);
  if (!SendAll(peer.file(), hello) || !Receive(peer.file(), welcome)) return nullptr;
  if (welcome.kind == kNameTaken) {
    throw ConfigError(fmt::format(
        "--rendezvous {}: another host is called '{}' too; set TELLER_NODE to a name of its own",
        options.address, options.node));
  }
  if (!options.run_id.empty() && options.run_id != Get(welcome.run_id)) {
    throw ConfigError(fmt::format("--rendezvous {}: run '{}' meets there, not '{}'",
                                  options.address, Get(welcome.run_id), options.run_id));
  }
  return std::make_unique<AskingHost>(std::move(peer), options, welcome);
}

}  // namespace

std::unique_ptr<Rendezvous> Rendezvous::Meet(const RendezvousOptions& options) {
  const Addresses addresses = Resolve(options.address);
  const int64_t end_ns = MonotonicNs() + options.timeout_ns;
  do {
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      if (Socket listener = Bind(*address); listener.file() >= 0) {
        return std::make_unique<AnsweringHost>(
            std::move(listener), options, options.run_id.empty() ? RandomRunId() : options.run_id);
      }
      Socket peer = Connect(*address);
      if (peer.file() < 0) continue;
      if (auto met = Ask(options, std::move(peer))) return met;
    }
    nanosleep(&kRetry, nullptr);
  } while (MonotonicNs() < end_ns);
  throw DeviceError(fmt::format(
      "--rendezvous {}: no collector answers there within {}; start the one of that host first",
      options.address, FormatDuration(options.timeout_ns)));
}

std::string OwnNodeName() {
  const char* named = getenv("TELLER_NODE");
  if (named != nullptr && *named != 0) return named;
  char host[64] = "";
  if (gethostname(host, sizeof host) != 0) host[0] = 0;
  host[sizeof host - 1] = 0;
  return host;
}

}  // namespace teller::collect
