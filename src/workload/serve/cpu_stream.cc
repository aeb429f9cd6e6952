#include "src/workload/serve/cpu_stream.h"

#include <pthread.h>

#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/workload/serve/activity.h"

namespace teller::serve {
namespace {

constexpr uint32_t kQueueItems = 4096;  ///< a step of the default model queues about 60

/// Spins on `value` for a while, then sleeps, until `done(value)`.
template <typename Done>
void SpinThenSleep(const std::atomic<uint32_t>& value, int spin_us, Done done) {
  const int64_t until = spin_us > 0 ? MonotonicNs() + spin_us * int64_t{1000} : 0;
  uint32_t seen = value.load(std::memory_order_acquire);
  while (!done(seen)) {
    if (spin_us > 0 && MonotonicNs() < until) {
      __builtin_ia32_pause();
    } else {
      value.wait(seen, std::memory_order_acquire);
    }
    seen = value.load(std::memory_order_acquire);
  }
}

/// Whether counter `seen`, which may wrap, has come to `target`.
bool Reached(uint32_t seen, uint32_t target) { return static_cast<int32_t>(seen - target) >= 0; }

}  // namespace

class CpuDevice::Event {
 public:
  std::atomic<uint32_t> recorded{0};
  std::atomic<uint32_t> completed{0};
};

/// One stream: a ring of items, filled under a mutex, emptied by one thread.
class CpuDevice::Queue {
 public:
  struct Item {
    ActivityDetail detail;
    bool told = true;  ///< false: the stream's own bookkeeping, no activity
    std::function<void()> work;
  };

  Queue(uint32_t id, const Options& options)
      : id_(id), options_(options), thread_([this] { Run(); }) {}

  ~Queue() {
    Push({.told = false, .work = [this] { stopping_ = true; }});
    thread_.join();
  }

  uint32_t id() const { return id_; }

  void Push(Item item) {
    const std::lock_guard lock(push_mutex_);
    const uint32_t ticket = pushed_.load(std::memory_order_relaxed);
    SpinThenSleep(taken_, 0, [ticket](uint32_t taken) { return ticket - taken < kQueueItems; });
    items_[ticket % kQueueItems] = std::move(item);
    pushed_.store(ticket + 1, std::memory_order_release);
    pushed_.notify_one();
  }

  void RethrowFailure() {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), ("cpu-stream-" + std::to_string(id_)).c_str());
    if (options_.on_stream_start) options_.on_stream_start();
    for (uint32_t ticket = 0; !stopping_; ++ticket) {
      SpinThenSleep(pushed_, options_.spin_us,
                    [ticket](uint32_t pushed) { return pushed != ticket; });
      Item item = std::move(items_[ticket % kQueueItems]);
      taken_.store(ticket + 1, std::memory_order_release);
      taken_.notify_one();
      Execute(item);
    }
  }

  void Execute(const Item& item) {
    if (!item.told) return item.work();
    if (failed_) return;
    const ActivityScope scope(ActivityScope::Place::kItem, item.detail);
    try {
      item.work();
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      failure_ = std::current_exception();
      failed_ = true;
    }
  }

  const uint32_t id_;
  const Options& options_;
  std::mutex push_mutex_;
  std::array<Item, kQueueItems> items_;
  std::atomic<uint32_t> pushed_{0};
  std::atomic<uint32_t> taken_{0};
  bool stopping_ = false;  ///< the stream's thread only
  bool failed_ = false;    ///< the stream's thread only
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::thread thread_;  ///< last: starts when all else is ready
};

CpuDevice::CpuDevice(Options options) : options_(std::move(options)) {}
CpuDevice::~CpuDevice() = default;

CpuDevice::Stream CpuDevice::CreateStream() {
  const auto id = static_cast<uint32_t>(queues_.size() + 1);
  queues_.push_back(std::make_unique<Queue>(id, options_));
  return Stream{id};
}

std::shared_ptr<CpuDevice::Event> CpuDevice::CreateEvent() { return std::make_shared<Event>(); }

CpuDevice::Queue& CpuDevice::QueueOf(Stream stream) {
  const auto id = static_cast<uint32_t>(stream);
  TELLER_CHECK(id >= 1 && id <= queues_.size());
  return *queues_[id - 1];
}

void CpuDevice::Launch(Stream stream, const char* kernel, std::function<void()> work) {
  const ActivityDetail detail = {.kind = TELLER_ACTIVITY_LAUNCH,
                                 .stream = static_cast<uint32_t>(stream),
                                 .correlation = NextCorrelation(),
                                 .name = "streamLaunch",
                                 .item_name = kernel};
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  QueueOf(stream).Push({.detail = detail, .work = std::move(work)});
}

void CpuDevice::Copy(Stream stream, const char* name, void* to, const void* from,
                     std::size_t bytes) {
  const ActivityDetail detail = {.kind = TELLER_ACTIVITY_COPY,
                                 .stream = static_cast<uint32_t>(stream),
                                 .correlation = NextCorrelation(),
                                 .name = "streamCopy",
                                 .item_name = name,
                                 .bytes = static_cast<int64_t>(bytes)};
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  QueueOf(stream).Push(
      {.detail = detail, .work = [to, from, bytes] { std::memcpy(to, from, bytes); }});
}

void CpuDevice::Memset(Stream stream, void* to, int value, std::size_t bytes) {
  const ActivityDetail detail = {.kind = TELLER_ACTIVITY_MEMSET,
                                 .stream = static_cast<uint32_t>(stream),
                                 .correlation = NextCorrelation(),
                                 .name = "streamMemset",
                                 .item_name = "memset",
                                 .bytes = static_cast<int64_t>(bytes)};
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  QueueOf(stream).Push(
      {.detail = detail, .work = [to, value, bytes] { std::memset(to, value, bytes); }});
}

void CpuDevice::Enqueue(Stream stream, const Collective& collective, std::function<void()> work) {
  const ActivityDetail detail = {.kind = TELLER_ACTIVITY_COLLECTIVE,
                                 .stream = static_cast<uint32_t>(stream),
                                 .correlation = NextCorrelation(),
                                 .name = "streamCollective",
                                 .item_name = collective.name,
                                 .comm = collective.comm,
                                 .bytes = collective.bytes,
                                 .sequence = collective.sequence,
                                 .peer = collective.peer};
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  QueueOf(stream).Push({.detail = detail, .work = std::move(work)});
}

namespace {

ActivityDetail EventCall(const char* name, uint32_t stream, uint64_t correlation) {
  return {.kind = TELLER_ACTIVITY_EVENT,
          .stream = stream,
          .correlation = correlation,
          .name = name,
          .item_name = "event"};
}

ActivityDetail SyncCall(const char* name, uint32_t stream, uint64_t correlation) {
  return {.kind = TELLER_ACTIVITY_SYNC, .stream = stream, .correlation = correlation, .name = name};
}

}  // namespace

void CpuDevice::Record(Stream stream, const std::shared_ptr<Event>& event) {
  const ActivityDetail detail =
      EventCall("eventRecord", static_cast<uint32_t>(stream), NextCorrelation());
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  const uint32_t generation = event->recorded.fetch_add(1) + 1;
  QueueOf(stream).Push({.told = false, .work = [event, generation] {
                          event->completed.store(generation, std::memory_order_release);
                          event->completed.notify_all();
                        }});
}

void CpuDevice::Wait(Stream stream, const std::shared_ptr<Event>& event) {
  const ActivityDetail detail =
      EventCall("streamWaitEvent", static_cast<uint32_t>(stream), NextCorrelation());
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  const uint32_t generation = event->recorded.load();
  QueueOf(stream).Push(
      {.detail = detail, .work = [this, event, generation] { WaitFor(*event, generation); }});
}

void CpuDevice::WaitFor(const Event& event, uint32_t generation) const {
  SpinThenSleep(event.completed, options_.spin_us,
                [generation](uint32_t completed) { return Reached(completed, generation); });
}

void CpuDevice::Drain(Queue& queue) {
  const auto reached = CreateEvent();
  queue.Push({.told = false, .work = [reached] {
                reached->completed.store(1, std::memory_order_release);
                reached->completed.notify_all();
              }});
  WaitFor(*reached, 1);
  queue.RethrowFailure();
}

void CpuDevice::Synchronize(Stream stream) {
  const ActivityDetail detail =
      SyncCall("streamSynchronize", static_cast<uint32_t>(stream), NextCorrelation());
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  Drain(QueueOf(stream));
}

void CpuDevice::Synchronize(const std::shared_ptr<Event>& event) {
  const ActivityDetail detail = SyncCall("eventSynchronize", 0, NextCorrelation());
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  WaitFor(*event, event->recorded.load());
  for (const auto& queue : queues_) queue->RethrowFailure();
}

void CpuDevice::Synchronize() {
  const ActivityDetail detail = SyncCall("deviceSynchronize", 0, NextCorrelation());
  const ActivityScope scope(ActivityScope::Place::kCall, detail);
  for (const auto& queue : queues_) Drain(*queue);
}

}  // namespace teller::serve
