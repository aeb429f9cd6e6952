#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace teller::serve {

/// The local address of this machine's route to `address` (IPv4), as other nodes see it. Throws
/// DeviceError.
std::string LocalAddressTowards(const std::string& address);

/// TCP between rank 0 and each other rank: it introduces the ranks to each other, carries step
/// plans from rank 0, and shows at once when a process at the other end is gone, whatever that one
/// was doing. Plans do not go through the collectives' process group, so that it holds nothing but
/// the model's own collectives.
class ControlChannel {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    std::string address = "127.0.0.1";  ///< of rank 0
    int port = 29500;
    int timeout_s = 60;  ///< for all ranks to come, and for a peer that does not take its plan
    uint64_t config_hash = 0;  ///< ranks with different configurations refuse each other
  };

  /// Meets the other ranks, in any order of start. `store_port` is called on rank 0 and its answer
  /// handed to all. Throws DeviceError: port in use, a rank missing or twice, different
  /// configurations, timeout, interrupted.
  ControlChannel(const Options& options, const std::function<int()>& store_port);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int store_port() const { return store_port_; }

  /// Rank 0: to all others. Throws DeviceError.
  void Send(std::span<const int32_t> words);
  /// Others: the next message; empty when none came in `wait_ms`. Throws DeviceError when rank 0 is
  /// gone.
  std::vector<int32_t> Receive(int wait_ms);

  /// Calls `on_death` (one line that says who) on a thread of its own when a peer's process ends,
  /// until Leave.
  void Watch(std::function<void(const std::string&)> on_death);
  /// From here on a peer's end is no death. Call before the last Send or after the last Receive.
  void Leave();
  /// Rank 0, after Leave: waits until the others have closed their ends, `wait_ms` at most.
  void AwaitOthersLeaving(int wait_ms);

 private:
  struct State;
  std::unique_ptr<State> state_;
  int store_port_ = 0;
};

}  // namespace teller::serve
