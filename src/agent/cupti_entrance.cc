// Entrance of CUPTI: the injection named by CUDA_INJECTION64_PATH, which the CUDA driver calls from
// inside cuInit. Not yet run on hardware: tests drive it through a libcupti of their own.
#include "src/agent/cupti_entrance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "src/agent/background.h"
#include "src/agent/cupti_library.h"
#include "src/agent/entrances.h"
#include "src/agent/settings.h"

namespace teller::agent {

namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr uint32_t kMaxBuffers = 256;  // 64 MiB; beyond that CUPTI drops records and counts them

CuptiLibrary cupti;
CUpti_SubscriberHandle subscriber;

/// Buffers that CUPTI does not hold now. Memory is asked for only when none is left.
struct Stock {
  SpinLock lock;
  uint32_t made;
  uint32_t count;
  uint8_t* buffers[kMaxBuffers];
};
Stock stock;

uint8_t* TakeBuffer() noexcept {
  stock.lock.lock();
  uint8_t* buffer = stock.count > 0 ? stock.buffers[--stock.count] : nullptr;
  const bool make = buffer == nullptr && stock.made < kMaxBuffers;
  if (make) ++stock.made;
  stock.lock.unlock();
  if (!make) return buffer;
  void* memory =
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

void GiveBuffer(uint8_t* buffer) noexcept {
  stock.lock.lock();
  if (stock.count < kMaxBuffers) stock.buffers[stock.count++] = buffer;
  stock.lock.unlock();
}

class Writer final : public CuptiReceiver {
 public:
  explicit Writer(Thread* thread) noexcept : thread_(thread) {}
  void Take(const CuptiEvent& event) noexcept override {
    TellerRecord* record = NextRecord(thread_);
    if (record == nullptr) return;
    *record = event.record;
    record->name = NameId(thread_, event.name);
    CommitRecord(thread_);
  }

 private:
  Thread* thread_;
};

void CountDrops(TellerDropReason reason, uint64_t count) noexcept {
  if (count > 0) __atomic_fetch_add(&g_state->pool->dropped[reason], count, __ATOMIC_RELAXED);
}

void CountDroppedByCupti() noexcept {
  size_t dropped = 0;
  if (cupti.dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS)
    CountDrops(TELLER_DROP_CUPTI_RECORDS, dropped);
}

bool IsAttached() noexcept {
  return g_state != nullptr && g_state->cupti_attached.load(std::memory_order_acquire) != 0;
}

// ---- Callbacks, on whatever thread CUPTI uses

uint64_t CUPTIAPI OnTimestamp() noexcept { return static_cast<uint64_t>(MonotonicNs()); }

void CUPTIAPI OnBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records) noexcept {
  const ErrnoKeeper errno_keeper;
  *buffer = TakeBuffer();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI OnBufferCompleted(CUcontext, uint32_t, uint8_t* buffer, size_t,
                                size_t valid_bytes) noexcept {
  const ErrnoKeeper errno_keeper;
  Thread* thread = CurrentThread();
  if (thread != nullptr && buffer != nullptr) {
    Writer writer(thread);
    const CuptiCounts counts = DecodeCuptiBuffer(cupti.decode, buffer, valid_bytes, writer);
    CountDrops(TELLER_DROP_CUPTI_UNTIMED, counts.untimed);
    CountDrops(TELLER_DROP_CUPTI_BUFFER, counts.damaged ? 1 : 0);
    __atomic_fetch_add(&g_state->pool->cupti_overhead_ns, counts.overhead_ns, __ATOMIC_RELAXED);
    CountDroppedByCupti();
  }
  if (buffer != nullptr) GiveBuffer(buffer);
}

/// Subscribing keeps other tools away from CUPTI meanwhile; no callback is ever enabled.
void CUPTIAPI OnCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) noexcept {}

// ---- Switching

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                         CUPTI_ACTIVITY_KIND_OVERHEAD,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

void NoteFailure(const char* what, CUptiResult result) noexcept {
  const char* text = nullptr;
  if (cupti.result_string(result, &text) != CUPTI_SUCCESS || text == nullptr)
    text = "unknown error";
  char line[160];
  snprintf(line, sizeof line, "CUPTI, %s: %s", what, text);
  Note(line);
}

void SwitchKind(CUpti_ActivityKind kind, bool on) noexcept {
  const CUptiResult result = on ? cupti.enable(kind) : cupti.disable(kind);
  if (result == CUPTI_SUCCESS || !on) return;
  char what[48];
  snprintf(what, sizeof what, "enabling activity kind %d", static_cast<int>(kind));
  NoteFailure(what, result);
}

/// A graph launch is one record of GRAPH_TRACE, or a kernel record a node.
void Switch(bool on) noexcept {
  for (const CUpti_ActivityKind kind : kKinds) SwitchKind(kind, on);
  if (!on || (Switches() & kWholeGraphs) != 0) SwitchKind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, on);
  if (!on) cupti.flush_all(0);
}

bool Wanted() noexcept { return (Switches() & kRecordCupti) != 0; }

/// What has ended is delivered; forced, everything is.
void FlushAtExit() {
  if (IsAttached()) cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

// ---- Attaching

/// One step of attaching; false, with a line, where CUPTI refuses.
bool Step(const char* what, CUptiResult result) noexcept {
  if (result == CUPTI_SUCCESS) return true;
  NoteFailure(what, result);
  return false;
}

bool Subscribe() noexcept {
  const CUptiResult result = cupti.subscribe(&subscriber, OnCallback, nullptr);
  if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return Step("subscribing", result);
  Note("another tool holds CUPTI: device activity is not captured");
  return false;
}

/// Before any kind is enabled, as CUPTI wants it. Buffers per thread are not known to every
/// CUPTI 12.
bool Configure() noexcept {
  uint8_t per_thread = 1;
  size_t size = sizeof per_thread;
  cupti.set_attribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &per_thread);
  return Step("thread ids", cupti.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)) &&
         Step("timestamps", cupti.register_timestamp(OnTimestamp)) &&
         Step("buffers", cupti.register_buffers(OnBufferRequested, OnBufferCompleted));
}

/// What CUDA_INJECTION64_PATH held before goes first: where it takes CUPTI, it keeps it.
void LoadToolOfUser() noexcept {
  const char* path = LoadSettings().next_cuda;
  if (*path == 0) return;
  void* library = dlopen(path, RTLD_NOW);
  auto initialise = library == nullptr
                        ? nullptr
                        : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialise == nullptr) return Note("the tool of CUDA_INJECTION64_PATH cannot be loaded");
  initialise();
}

bool AttachCupti() noexcept {
  const int64_t begin_ns = MonotonicNs();
  if (const char* missing = OpenCupti(cupti)) {
    Note(missing);
    return false;
  }
  if (!Subscribe()) return false;
  if (!Configure()) {
    cupti.unsubscribe(subscriber);
    return false;
  }
  NoteAttached(TELLER_SOURCE_CUPTI, begin_ns);
  return true;
}

}  // namespace

void FollowCuptiSwitches() noexcept {
  if (!IsAttached() || Wanted() == g_state->cupti_on) return;
  g_state->cupti_on = Wanted();
  Switch(g_state->cupti_on);
}

void FlushCupti() noexcept {
  if (IsAttached() && g_state->cupti_on) cupti.flush_all(0);
}

void EnterTiedOperator(uint32_t number) noexcept {
  if (IsAttached()) cupti.push_operator(kOperatorCorrelation, number);
}

void LeaveTiedOperator() noexcept {
  uint64_t left = 0;
  if (IsAttached()) cupti.pop_operator(kOperatorCorrelation, &left);
}

}  // namespace teller::agent

/// The driver calls this once a process. 1: attached, or nothing to do here.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace teller::agent;
  if (!AttachProcess() || g_state->cupti_called.exchange(1) != 0) return 1;
  LoadToolOfUser();
  if (!AttachCupti()) return 1;
  // The first launches are not to be missed, so the kinds are enabled here; from then on the
  // background thread follows.
  g_state->cupti_on = Wanted();
  if (g_state->cupti_on) Switch(true);
  atexit(FlushAtExit);
  g_state->cupti_attached.store(1, std::memory_order_release);
  return 1;
}
