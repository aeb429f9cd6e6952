#include "fault_injection/packet_switch.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fault_injection/prompt_thread.h"
#include "src/core/clock.h"

namespace teller::fault_injection {
namespace {

constexpr std::size_t kFrameBytes = 65536;
/// Held for less than this is the switch's own work, not a fault.
constexpr int64_t kLeastHeldNs = 20'000;
constexpr int64_t kIdleNs = 20'000'000;
/// A packet that leaves so soon is waited for by looking at the clock: a sleep overshoots by 50 us
/// and more.
constexpr int64_t kSpinNs = 60'000;
constexpr int64_t kDrainNs = 100'000'000;
/// A queue that grows beyond this drops, as a real one does.
constexpr std::size_t kQueuePackets = 16384;

/// What the kernel says about a device by itself (neighbours, IPv6) is no traffic of the engine: it
/// passes untouched.
bool IsTraffic(const std::vector<uint8_t>& frame) {
  return frame.size() > 14 && frame[12] == 0x08 && frame[13] == 0x00;
}

}  // namespace

bool LinkQueue::IsDown(int64_t now_ns) {
  if (policy_.down_ns == 0) return false;
  const auto up_ns = [this] { return random_.UniformInt(0, 2 * policy_.up_mean_ns); };
  if (next_change_ns_ == 0) next_change_ns_ = now_ns + up_ns();
  while (next_change_ns_ <= now_ns) {
    down_ = !down_;
    next_change_ns_ += down_ ? policy_.down_ns : up_ns();
  }
  return down_;
}

bool LinkQueue::Push(int64_t now_ns, std::vector<uint8_t> bytes) {
  if (IsDown(now_ns)) return false;
  if (held_.size() >= kQueuePackets || (policy_.loss > 0 && random_.Bernoulli(policy_.loss)))
    return false;
  int64_t leaves_ns = now_ns + policy_.delay_ns;
  if (policy_.jitter_ns > 0) leaves_ns += random_.UniformInt(0, policy_.jitter_ns);
  if (policy_.bytes_per_second > 0) {
    const double wire_ns = 1e9 * static_cast<double>(bytes.size()) / policy_.bytes_per_second;
    leaves_ns = std::max(leaves_ns, last_leaves_ns_) + std::llround(wire_ns);
  }
  last_leaves_ns_ = std::max(last_leaves_ns_, leaves_ns);
  held_.push_back({.arrived_ns = now_ns, .leaves_ns = last_leaves_ns_, .bytes = std::move(bytes)});
  return true;
}

bool LinkQueue::Pop(int64_t now_ns, HeldPacket& packet) {
  if (held_.empty() || held_.front().leaves_ns > now_ns) return false;
  packet = std::move(held_.front());
  held_.pop_front();
  return true;
}

int64_t LinkQueue::NextNs() const { return held_.empty() ? INT64_MAX : held_.front().leaves_ns; }

struct PacketSwitch::Port {
  Port(const Direction& direction, uint64_t seed)
      : from(direction.from), to(direction.to), queue(direction.policy, seed) {}

  int from, to;
  LinkQueue queue;
  int64_t held_begin_ns = 0, held_end_ns = 0;  // the interval that is growing; begin 0: none
  int64_t dropped_ns = 0;                      // the first drop since a packet got through; 0: none
};

PacketSwitch::PacketSwitch(std::vector<Direction> directions, uint64_t seed, Interval interval)
    : interval_(std::move(interval)) {
  for (const Direction& direction : directions) {
    ports_.push_back(std::make_unique<Port>(direction, seed + ports_.size()));
  }
  thread_ = std::thread([this] { Run(); });
}

PacketSwitch::~PacketSwitch() {
  Finish();
  std::set<int> devices;
  for (const auto& port : ports_) devices.insert({port->from, port->to});
  for (const int device : devices) close(device);
}

void PacketSwitch::Finish() noexcept {
  ending_.store(true);
  if (thread_.joinable()) thread_.join();
}

void PacketSwitch::Run() {
  RunPromptly();
  int64_t limit_ns = INT64_MAX;
  std::vector<pollfd> waiting;
  for (const auto& port : ports_)
    waiting.push_back({.fd = port->from, .events = POLLIN, .revents = 0});
  while (true) {
    const int64_t now_ns = MonotonicNs();
    if (ending_.load() && limit_ns == INT64_MAX) limit_ns = now_ns + kDrainNs;
    const bool drained = std::all_of(ports_.begin(), ports_.end(),
                                     [](const auto& port) { return port->queue.empty(); });
    if (limit_ns != INT64_MAX && (drained || now_ns > limit_ns)) break;
    int64_t next_ns = now_ns + kIdleNs;
    for (const auto& port : ports_) next_ns = std::min(next_ns, port->queue.NextNs());
    const int64_t sleep_ns = std::max<int64_t>(0, next_ns - now_ns - kSpinNs);
    const timespec timeout{.tv_sec = 0, .tv_nsec = sleep_ns};
    ppoll(waiting.data(), waiting.size(), &timeout, nullptr);
    for (const auto& port : ports_) {
      Receive(*port);
      Deliver(*port);
    }
  }
  for (const auto& port : ports_) CloseInterval(*port);
}

void PacketSwitch::Receive(Port& port) {
  std::vector<uint8_t> frame(kFrameBytes);
  for (ssize_t bytes; (bytes = read(port.from, frame.data(), frame.size())) > 0;) {
    std::vector<uint8_t> packet(frame.begin(), frame.begin() + bytes);
    if (!IsTraffic(packet)) {
      [[maybe_unused]] const ssize_t written = write(port.to, packet.data(), packet.size());
      continue;
    }
    ++counts_.packets;
    counts_.bytes += bytes;
    const int64_t now_ns = MonotonicNs();
    if (port.queue.Push(now_ns, std::move(packet))) continue;
    ++counts_.dropped;
    if (port.dropped_ns == 0) port.dropped_ns = now_ns;
  }
}

void PacketSwitch::Deliver(Port& port) {
  HeldPacket packet;
  while (port.queue.Pop(MonotonicNs(), packet)) {
    // A device that is gone or full loses the packet, as a link does.
    [[maybe_unused]] const ssize_t written =
        write(port.to, packet.bytes.data(), packet.bytes.size());
    const int64_t now_ns = MonotonicNs();
    if (port.dropped_ns != 0) {
      interval_(port.dropped_ns, now_ns, "drop");
      port.dropped_ns = 0;
    }
    if (packet.leaves_ns - packet.arrived_ns < kLeastHeldNs) continue;
    ++counts_.held;
    counts_.held_ns += now_ns - packet.arrived_ns;
    if (port.held_begin_ns != 0 && packet.arrived_ns > port.held_end_ns) CloseInterval(port);
    if (port.held_begin_ns == 0) port.held_begin_ns = packet.arrived_ns;
    port.held_end_ns = now_ns;
  }
}

void PacketSwitch::CloseInterval(Port& port) {
  if (port.held_begin_ns != 0) interval_(port.held_begin_ns, port.held_end_ns, "hold");
  port.held_begin_ns = 0;
}

}  // namespace teller::fault_injection
