#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace teller::serve {

/// The CPU device runtime ("cpu-stream"): what a GPU's runtime does, by threads, so that queueing,
/// launch delay and execution are distinct. Every call but the synchronisations returns at once; a
/// stream runs its items in the order of the calls, on a thread of its own, for real. Each call and
/// its item share a correlation id, and both are told to the subscriber of src/abi/activity.h.
/// Names passed in must outlive the process's use of them (literals).
///
/// Calls may come from any thread. A failing item stops its stream: later items are dropped, and
/// the next synchronisation rethrows the first failure.
class CpuDevice {
 public:
  struct Options {
    /// How long a stream without work, or a caller that waits, spins before it sleeps. On two cores
    /// for two ranks spinning takes the core that the peer needs (measured: docs in the room's
    /// README).
    int spin_us = 0;
    /// Runs on each stream's thread before its first item.
    std::function<void()> on_stream_start;
  };
  enum class Stream : uint32_t {};
  class Event;

  explicit CpuDevice(Options options);
  /// Waits for the items already queued.
  ~CpuDevice();
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  /// Streams count from 1.
  Stream CreateStream();
  std::shared_ptr<Event> CreateEvent();

  void Launch(Stream stream, const char* kernel, std::function<void()> work);
  /// `to` and `from` must live until the item ran.
  void Copy(Stream stream, const char* name, void* to, const void* from, std::size_t bytes);
  void Memset(Stream stream, void* to, int value, std::size_t bytes);

  /// A collective or a point-to-point message as an item; `work` does it and waits for it.
  struct Collective {
    const char* name = nullptr;  ///< 'all_reduce', ...
    const char* comm = nullptr;  ///< communicator
    int64_t bytes = -1;
    int32_t sequence = -1;  ///< in its communicator, from 0
    int32_t peer = -1;      ///< of a point-to-point message
  };
  void Enqueue(Stream stream, const Collective& collective, std::function<void()> work);

  void Record(Stream stream, const std::shared_ptr<Event>& event);
  /// Holds later items of `stream` until the last Record of `event` before this call has been
  /// reached.
  void Wait(Stream stream, const std::shared_ptr<Event>& event);

  void Synchronize(Stream stream);
  void Synchronize(const std::shared_ptr<Event>& event);
  void Synchronize();

 private:
  class Queue;
  Queue& QueueOf(Stream stream);
  uint64_t NextCorrelation() { return correlation_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void Drain(Queue& queue);
  void WaitFor(const Event& event, uint32_t generation) const;

  Options options_;
  std::atomic<uint64_t> correlation_{0};
  std::vector<std::unique_ptr<Queue>>
      queues_;  ///< grows only in CreateStream, before other threads call
};

}  // namespace teller::serve
