#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace teller::serve {

/// The c10d store of one service. Rank 0 serves it on a port of the kernel's choice.
class RankStore {
 public:
  /// port 0: serve. Throws DeviceError.
  RankStore(const std::string& address, int port, int timeout_s);
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;
  int port() const;

 private:
  friend class ProcessGroup;
  struct State;
  std::unique_ptr<State> state_;
};

/// A group of ranks over c10d's Gloo. Calls block, in the same order on every rank of the group;
/// here they are made by the stream that they were queued on. Failures (a peer that is gone, a
/// timeout) are DeviceErrors.
class ProcessGroup {
 public:
  /// @param name  of the communicator, equal on all its ranks
  ProcessGroup(RankStore& store, std::string name, int rank, int size,
               const std::string& local_address, int timeout_s);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const char* name() const { return name_.c_str(); }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Numbers the collectives in the order in which they are queued, from 0.
  int32_t NextSequence() { return sequence_++; }
  /// The same for messages to `peer`, and for those from it.
  int32_t NextSendSequence(int peer) { return sent_[static_cast<std::size_t>(peer)]++; }
  int32_t NextReceiveSequence(int peer) { return received_[static_cast<std::size_t>(peer)]++; }

  /// Sums `tensor` over the ranks, in place.
  void AllReduce(at::Tensor tensor);
  /// out [size, ...]: every rank's `tensor`.
  void AllGather(at::Tensor out, at::Tensor tensor);
  void Send(at::Tensor tensor, int peer);
  void Receive(at::Tensor tensor, int peer);

 private:
  struct State;
  std::string name_;
  int rank_, size_;
  int32_t sequence_ = 0;
  std::vector<int32_t> sent_, received_;
  std::unique_ptr<State> state_;
};

}  // namespace teller::serve
