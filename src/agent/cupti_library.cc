#include "src/agent/cupti_library.h"

#include <dlfcn.h>

#include "src/agent/settings.h"

namespace teller::agent {

namespace {

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                  "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
constexpr int kFirstDriverOf13 = 13000;

template <typename Function>
bool Find(void* library, const char* symbol, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

int DriverVersion(void* driver) noexcept {
  int (*get_version)(int*) = nullptr;
  int version = 0;
  if (Find(driver, "cuDriverGetVersion", get_version)) get_version(&version);
  return version;
}

/// A process must not have two: what it has loaded itself comes before what can be found.
void* OpenLibrary(void* driver) noexcept {
  const char* named = LoadSettings().cupti_library;
  if (*named != 0) return dlopen(named, RTLD_LAZY);
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  }
  const bool is_13 = DriverVersion(driver) >= kFirstDriverOf13;
  for (const char* name : kNames) {
    if (name == kNames[0] && !is_13) continue;
    if (void* library = dlopen(name, RTLD_LAZY)) return library;
  }
  return nullptr;
}

bool FindFunctions(void* from, CuptiLibrary& to) noexcept {
  return Find(from, "cuptiActivityGetNextRecord", to.decode.next_record) &&
         Find(from, "cuptiGetCallbackName", to.decode.callback_name) &&
         Find(from, "cuptiGetVersion", to.get_version) &&
         Find(from, "cuptiGetResultString", to.result_string) &&
         Find(from, "cuptiSubscribe", to.subscribe) &&
         Find(from, "cuptiUnsubscribe", to.unsubscribe) &&
         Find(from, "cuptiSetThreadIdType", to.set_thread_id_type) &&
         Find(from, "cuptiActivitySetAttribute", to.set_attribute) &&
         Find(from, "cuptiActivityRegisterTimestampCallback", to.register_timestamp) &&
         Find(from, "cuptiActivityRegisterCallbacks", to.register_buffers) &&
         Find(from, "cuptiActivityEnable", to.enable) &&
         Find(from, "cuptiActivityDisable", to.disable) &&
         Find(from, "cuptiActivityFlushAll", to.flush_all) &&
         Find(from, "cuptiActivityGetNumDroppedRecords", to.dropped) &&
         Find(from, "cuptiActivityPushExternalCorrelationId", to.push_operator) &&
         Find(from, "cuptiActivityPopExternalCorrelationId", to.pop_operator);
}

/// CUPTI 12 counts 18, 19, ...; CUPTI 13 counts 130000, ...
bool IsKnownVersion(const CuptiLibrary& library) noexcept {
  constexpr uint32_t kFirst12 = 18, kAfter12 = 100, kFirst13 = 130000, kAfter13 = 140000;
  uint32_t version = 0;
  if (library.get_version(&version) != CUPTI_SUCCESS) return false;
  return (version >= kFirst12 && version < kAfter12) || (version >= kFirst13 && version < kAfter13);
}

}  // namespace

const char* OpenCupti(CuptiLibrary& library) noexcept {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return "no CUDA driver in the process: CUPTI is off";
  void* opened = OpenLibrary(driver);
  if (opened == nullptr)
    return "no libcupti found (set TELLER_CUPTI_LIBRARY): device activity is not captured";
  if (!FindFunctions(opened, library) || !IsKnownVersion(library))
    return "a libcupti other than 12 or 13: device activity is not captured";
  return nullptr;
}

}  // namespace teller::agent
