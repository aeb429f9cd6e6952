// A target for tests: the smallest runtime with the activity interface. One stream thread executes
// launches, copies and collectives; the calls say ENTER and EXIT, the items BEGIN and END.
#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>

#include "src/abi/activity.h"

namespace {

std::atomic<TellerActivityCallback> subscriber;
std::atomic<bool> enabled;

int Subscribe(TellerActivityCallback callback, void*) {
  TellerActivityCallback none = nullptr;
  if (callback == nullptr) {
    subscriber = nullptr;
    return 1;
  }
  return subscriber.compare_exchange_strong(none, callback) ? 1 : 0;
}

void Enable(int on) { enabled = on != 0; }

void LoadTool() {
  const char* path = std::getenv(TELLER_ACTIVITY_VARIABLE);
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW);
  void* symbol = library == nullptr ? nullptr : dlsym(library, TELLER_ACTIVITY_INIT_SYMBOL);
  if (symbol == nullptr) return;
  static const TellerActivityApi api{TELLER_ACTIVITY_VERSION, sizeof(TellerActivityApi), Subscribe,
                                     Enable};
  reinterpret_cast<TellerActivityInit>(symbol)(&api);
}

void Tell(uint32_t site, const TellerActivityInfo& base, uint64_t* user) {
  const TellerActivityCallback callback = subscriber;
  if (callback == nullptr || !enabled) return;
  TellerActivityInfo info = base;
  info.site = site;
  info.user = user;
  callback(nullptr, &info);
}

/// One stream: a queue and a thread.
class Stream {
 public:
  Stream() : thread_([this] { Run(); }) {}
  ~Stream() {
    Put(std::nullopt);
    thread_.join();
  }

  void Call(TellerActivityKind kind, const char* name, const char* item, int64_t bytes,
            int32_t sequence) {
    TellerActivityInfo info{};
    info.size = sizeof info;
    info.kind = kind;
    info.stream = 3;
    info.correlation = ++correlation_;
    info.name = name;
    info.item_name = item;
    info.comm = kind == TELLER_ACTIVITY_COLLECTIVE ? "tp" : nullptr;
    info.bytes = bytes;
    info.sequence = sequence;
    info.peer = -1;
    uint64_t user = 0;
    Tell(TELLER_ACTIVITY_API_ENTER, info, &user);
    if (item != nullptr) Put(info);
    if (kind == TELLER_ACTIVITY_SYNC) WaitEmpty();
    Tell(TELLER_ACTIVITY_API_EXIT, info, &user);
  }

 private:
  void Put(std::optional<TellerActivityInfo> item) {
    const std::lock_guard lock(mutex_);
    queue_.push(item);
    changed_.notify_all();
  }

  void WaitEmpty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
  }

  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const std::optional<TellerActivityInfo> item = queue_.front();
      lock.unlock();
      if (!item.has_value()) return;
      uint64_t user = 0;
      Tell(TELLER_ACTIVITY_ITEM_BEGIN, *item, &user);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      Tell(TELLER_ACTIVITY_ITEM_END, *item, &user);
      lock.lock();
      queue_.pop();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::optional<TellerActivityInfo>> queue_;
  uint64_t correlation_ = 0;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  LoadTool();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  Stream stream;
  for (int i = 0; i < rounds; ++i) {
    stream.Call(TELLER_ACTIVITY_LAUNCH, "streamLaunch", "linear", -1, -1);
    stream.Call(TELLER_ACTIVITY_COPY, "streamCopy", "copy", 4096, -1);
    stream.Call(TELLER_ACTIVITY_COLLECTIVE, "streamCollective", "all_reduce", 1024, i);
    stream.Call(TELLER_ACTIVITY_SYNC, "streamSynchronize", nullptr, -1, -1);
  }
  return 0;
}
