#include "src/workload/serve/activity.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace teller::serve {
namespace {

// The one subscriber of the process. `active` is what a site looks at: null while off. The context
// is stored before the callback and read after it.
std::mutex subscriber_mutex;
std::atomic<TellerActivityCallback> subscriber{nullptr};
std::atomic<TellerActivityCallback> active{nullptr};
std::atomic<void*> subscriber_context{nullptr};

int Subscribe(TellerActivityCallback callback, void* context) {
  const std::lock_guard lock(subscriber_mutex);
  if (callback != nullptr && subscriber.load() != nullptr) return 0;
  subscriber_context.store(context);
  subscriber.store(callback);
  active.store(callback, std::memory_order_release);
  return 1;
}

void Enable(int enabled) {
  const std::lock_guard lock(subscriber_mutex);
  active.store(enabled != 0 ? subscriber.load() : nullptr, std::memory_order_release);
}

void Tell(TellerActivitySite site, const ActivityDetail& detail, uint64_t* user) {
  const TellerActivityCallback callback = active.load(std::memory_order_acquire);
  if (callback == nullptr) return;  // switched off just now
  const TellerActivityInfo info = {.size = sizeof(TellerActivityInfo),
                                   .site = site,
                                   .kind = detail.kind,
                                   .stream = detail.stream,
                                   .correlation = detail.correlation,
                                   .name = detail.name,
                                   .item_name = detail.item_name,
                                   .comm = detail.comm,
                                   .bytes = detail.bytes,
                                   .sequence = detail.sequence,
                                   .peer = detail.peer,
                                   .user = user};
  callback(subscriber_context.load(std::memory_order_relaxed), &info);
}

}  // namespace

const TellerActivityApi& ActivityApi() {
  static const TellerActivityApi api = {TELLER_ACTIVITY_VERSION, sizeof(TellerActivityApi),
                                        &Subscribe, &Enable};
  return api;
}

void LoadActivityInjection() {
  const char* path = std::getenv(TELLER_ACTIVITY_VARIABLE);
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, TELLER_ACTIVITY_INIT_SYMBOL) : nullptr;
  const char* problem = symbol == nullptr ? dlerror() : "its initialiser answered no";
  if (symbol == nullptr || reinterpret_cast<TellerActivityInit>(symbol)(&ActivityApi()) != 1) {
    std::fprintf(stderr, "teller-serve: warning: %s=%s is not used: %s\n", TELLER_ACTIVITY_VARIABLE,
                 path, problem);
  }
}

ActivityScope::ActivityScope(Place place, const ActivityDetail& detail)
    : place_(place), detail_(detail) {
  if (active.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return;
  Tell(place_ == Place::kCall ? TELLER_ACTIVITY_API_ENTER : TELLER_ACTIVITY_ITEM_BEGIN, detail_,
       &user_);
}

ActivityScope::~ActivityScope() {
  if (active.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return;
  Tell(place_ == Place::kCall ? TELLER_ACTIVITY_API_EXIT : TELLER_ACTIVITY_ITEM_END, detail_,
       &user_);
}

}  // namespace teller::serve
