#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/core/random.h"

namespace teller::fault_injection {

/// What one direction of a link does to its packets. Zero everywhere: pass on at once.
struct LinkPolicy {
  int64_t delay_ns = 0;         ///< every packet is held so long
  int64_t jitter_ns = 0;        ///< plus uniform in [0, jitter_ns]; order is kept
  double loss = 0;              ///< probability that a packet is dropped
  double bytes_per_second = 0;  ///< rate; 0: no limit
  int64_t down_ns = 0;          ///< everything is dropped for so long, again and again; 0: never
  int64_t up_mean_ns = 0;       ///< between; uniform from 0 to twice that
};

/// One packet that waits.
struct HeldPacket {
  int64_t arrived_ns = 0;
  int64_t leaves_ns = 0;
  std::vector<uint8_t> bytes;
};

/// The queue of one direction: decides for each packet when it leaves, first in, first out. No
/// clock and no device of its own, so that it can be tested by hand.
class LinkQueue {
 public:
  LinkQueue(LinkPolicy policy, uint64_t seed) : policy_(policy), random_(seed) {}

  /// @return false where the packet was dropped
  bool Push(int64_t now_ns, std::vector<uint8_t> bytes);
  /// The packet that leaves by now, if any.
  bool Pop(int64_t now_ns, HeldPacket& packet);
  /// When the next packet leaves; INT64_MAX: none waits.
  int64_t NextNs() const;
  bool empty() const { return held_.empty(); }

 private:
  bool IsDown(int64_t now_ns);

  LinkPolicy policy_;
  Random random_;
  bool down_ = false;
  int64_t next_change_ns_ = 0;  // of down_; 0: no packet has come yet
  int64_t last_leaves_ns_ = 0;
  std::deque<HeldPacket> held_;
};

/// What a switch did in one direction.
struct LinkCounts {
  int64_t packets = 0;
  int64_t bytes = 0;
  int64_t held = 0;
  int64_t held_ns = 0;  ///< sum over packets
  int64_t dropped = 0;
};

/// Connects pairs of TAP devices in user space and perturbs one direction of each. One thread.
/// Packets that were held at the same time are one interval; a drop is an interval until the next
/// packet of that direction gets through.
class PacketSwitch {
 public:
  /// A packet from `from` goes to `to`. Descriptors are owned by the switch.
  struct Direction {
    int from;
    int to;
    LinkPolicy policy;
  };
  using Interval = std::function<void(int64_t begin_ns, int64_t end_ns, const char* what)>;

  /// `interval` is called from the switch's thread, times on CLOCK_MONOTONIC of this process.
  PacketSwitch(std::vector<Direction> directions, uint64_t seed, Interval interval);
  ~PacketSwitch();
  PacketSwitch(const PacketSwitch&) = delete;
  PacketSwitch& operator=(const PacketSwitch&) = delete;

  /// Lets what waits leave, then stops. Later packets are lost with their device.
  void Finish() noexcept;
  /// Of all directions. After Finish.
  LinkCounts counts() const { return counts_; }

 private:
  struct Port;
  void Run();
  void Receive(Port& port);
  void Deliver(Port& port);
  void CloseInterval(Port& port);

  std::vector<std::unique_ptr<Port>> ports_;
  Interval interval_;
  LinkCounts counts_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace teller::fault_injection
