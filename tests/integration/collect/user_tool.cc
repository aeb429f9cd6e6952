// A tool of a user's own, for tests: held by CUDA_INJECTION64_PATH or LD_PRELOAD before ours.
#include <cupti.h>
#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  void* library = dlopen("libcupti.so.13", RTLD_NOW);
  if (library == nullptr) return 0;
  const auto subscribe =
      reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  CUpti_SubscriberHandle subscriber = nullptr;
  return subscribe != nullptr && subscribe(&subscriber, nullptr, nullptr) == CUPTI_SUCCESS ? 1 : 0;
}
