// A CUDA driver and a libcupti for tests, in one library without a device: launches and copies do
// nothing and are reported through CUPTI's activity interface as the real one would, in records of
// CUPTI 12 or 13. It refuses what CUPTI's manual forbids, for example to enable a kind before there
// are buffer callbacks. By its environment:
//   FAKE_CUPTI=12|13    layout of the records (default 13)
//   FAKE_CUPTI_BUSY     another tool has subscribed already
//   FAKE_CUPTI_DROPS=N  N records are said to be dropped
//   FAKE_CUPTI_UNTIMED  each synchronisation leaves a fill that has not ended
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

bool IsSet(const char* variable) { return std::getenv(variable) != nullptr; }
bool Is12() {
  const char* version = std::getenv("FAKE_CUPTI");
  return version != nullptr && std::string(version) == "12";
}

// ---- CUPTI: state

struct ThreadBuffer {
  uint8_t* data = nullptr;
  std::size_t size = 0, used = 0;
};

std::mutex mutex;  // guards all below
CUpti_BuffersCallbackRequestFunc request_buffer;
CUpti_BuffersCallbackCompleteFunc complete_buffer;
CUpti_TimestampCallbackFunc timestamp;
bool subscribed, system_threads;
std::set<CUpti_ActivityKind> enabled;
std::set<ThreadBuffer*> buffers;
std::size_t dropped;
std::atomic<uint32_t> last_correlation{100};
thread_local std::vector<uint64_t> external_ids;  // of CUSTOM2

uint64_t Now() { return timestamp == nullptr ? 1 : timestamp(); }
bool IsEnabled(CUpti_ActivityKind kind) { return enabled.contains(kind); }

void Complete(ThreadBuffer& buffer) {
  if (buffer.data == nullptr) return;
  complete_buffer(nullptr, 0, buffer.data, buffer.size, buffer.used);
  buffer = {};
}

/// Gives its buffer back when the thread ends.
struct OwnBuffer {
  OwnBuffer() { buffers.insert(&buffer); }
  ~OwnBuffer() {
    const std::lock_guard lock(mutex);
    Complete(buffer);
    buffers.erase(&buffer);
  }
  ThreadBuffer buffer;
};

/// The calling thread's buffer, with room for a record; NULL where the tool has none.
uint8_t* TakeRoom(std::size_t bytes) {
  static thread_local OwnBuffer own;
  ThreadBuffer& buffer = own.buffer;
  if (buffer.data != nullptr && buffer.used + bytes > buffer.size) Complete(buffer);
  if (buffer.data == nullptr) {
    std::size_t most = 0;
    request_buffer(&buffer.data, &buffer.size, &most);
  }
  if (buffer.data == nullptr) return nullptr;
  buffer.used += bytes;
  return buffer.data + buffer.used - bytes;
}

template <typename Record>
void Append(const Record& record) {
  if (uint8_t* room = TakeRoom(sizeof record)) {
    std::memcpy(room, &record, sizeof record);
  } else {
    ++dropped;
  }
}

std::size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return Is12() ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return Is12() ? sizeof(CUpti_ActivityMemcpy5) : sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return Is12() ? sizeof(CUpti_ActivitySynchronization)
                    : sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return Is12() ? sizeof(CUpti_ActivityGraphTrace) : sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return Is12() ? sizeof(CUpti_ActivityOverhead2) : sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

// ---- The driver: what it does is to report

/// A call of the driver, with the record of the operator it was made in before it.
class Call {
 public:
  explicit Call(CUpti_driver_api_trace_cbid cbid)
      : cbid_(cbid), correlation_(++last_correlation), start_(Now()) {}
  ~Call() {
    const std::lock_guard lock(mutex);
    if (IsEnabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !external_ids.empty()) {
      CUpti_ActivityExternalCorrelation external{};
      external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
      external.externalId = external_ids.back();
      external.correlationId = correlation_;
      Append(external);
    }
    if (!IsEnabled(CUPTI_ACTIVITY_KIND_DRIVER)) return;
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    call.cbid = cbid_;
    call.start = start_;
    call.end = Now();
    call.processId = static_cast<uint32_t>(getpid());
    call.threadId = system_threads ? static_cast<uint32_t>(syscall(SYS_gettid)) : 1;
    call.correlationId = correlation_;
    Append(call);
  }
  uint32_t correlation() const { return correlation_; }

 private:
  CUpti_driver_api_trace_cbid cbid_;
  uint32_t correlation_;
  uint64_t start_;
};

constexpr uint32_t kStream = 7;

template <typename Activity>
void Report(CUpti_ActivityKind kind, uint32_t correlation, Activity activity) {
  activity.kind = kind;
  activity.start = Now();
  activity.end = activity.start + 1000;
  activity.streamId = kStream;
  activity.correlationId = correlation;
  const std::lock_guard lock(mutex);
  if (IsEnabled(kind)) Append(activity);
}

constexpr const char* kKernelName = "_Z7add_onePf";

template <typename Kernel>
void ReportKernelAs(uint32_t correlation, uint64_t node) {
  Kernel kernel{};
  kernel.name = kKernelName;
  kernel.graphNodeId = node;
  Report(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation, kernel);
}

void ReportKernel(uint32_t correlation, uint64_t node) {
  Is12() ? ReportKernelAs<CUpti_ActivityKernel9>(correlation, node)
         : ReportKernelAs<CUpti_ActivityKernel10>(correlation, node);
}

template <typename Copy>
void ReportCopyAs(uint32_t correlation, uint8_t direction, std::size_t bytes) {
  Copy copy{};
  copy.copyKind = direction;
  copy.bytes = bytes;
  Report(CUPTI_ACTIVITY_KIND_MEMCPY, correlation, copy);
}

void ReportCopy(uint32_t correlation, uint8_t direction, std::size_t bytes) {
  Is12() ? ReportCopyAs<CUpti_ActivityMemcpy5>(correlation, direction, bytes)
         : ReportCopyAs<CUpti_ActivityMemcpy6>(correlation, direction, bytes);
}

template <typename Graph>
void ReportGraphAs(uint32_t correlation) {
  Report(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, correlation, Graph{});
}

template <typename Sync>
void ReportSyncAs(uint32_t correlation) {
  Sync sync{};
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  Report(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, correlation, sync);
}

void ReportOverhead() {
  CUpti_ActivityOverhead3 overhead{};  // those of CUPTI 12 are its beginning
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.start = Now();
  overhead.end = overhead.start + 500;
  const std::lock_guard lock(mutex);
  if (!IsEnabled(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  if (Is12()) {
    CUpti_ActivityOverhead2 older;
    std::memcpy(static_cast<void*>(&older), &overhead, sizeof older);
    Append(older);
  } else {
    Append(overhead);
  }
}

int captured_kernels = -1;  // -1: no capture is going on
constexpr uint64_t kGraph = 5;

}  // namespace

// ---- CUPTI: what a tool calls

FAKE_API CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = Is12() ? 26 : 130000;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "refused by the fake";
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  if (IsSet("FAKE_CUPTI_BUSY") || subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed = true;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  subscribed = false;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  system_threads = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                               void*) {
  const bool known =
      attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER && *size == sizeof(uint8_t);
  return known && request_buffer == nullptr ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
FAKE_API CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  if (!enabled.empty()) return CUPTI_ERROR_INVALID_OPERATION;
  timestamp = function;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  request_buffer = requested;
  complete_buffer = completed;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(mutex);
  if (request_buffer == nullptr || timestamp == nullptr || !subscribed)
    return CUPTI_ERROR_INVALID_OPERATION;
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(mutex);
  enabled.erase(kind);
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityFlushAll(uint32_t) {
  const std::lock_guard lock(mutex);
  for (ThreadBuffer* buffer : buffers) Complete(*buffer);
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                                CUpti_Activity** record) {
  auto* next = reinterpret_cast<uint8_t*>(*record);
  const std::size_t size = next == nullptr ? 0 : SizeOf((*record)->kind);
  next = next == nullptr ? buffer : next + size;
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return SizeOf((*record)->kind) == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* count) {
  if (const char* said = std::getenv("FAKE_CUPTI_DROPS")) {
    static std::atomic<bool> once{false};
    if (!once.exchange(true)) dropped += std::strtoull(said, nullptr, 10);
  }
  *count = dropped;
  dropped = 0;
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                            uint64_t id) {
  if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2) return CUPTI_ERROR_INVALID_PARAMETER;
  external_ids.push_back(id);
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                           uint64_t* last) {
  if (external_ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = external_ids.back();
  external_ids.pop_back();
  return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t cbid, const char** name) {
  switch (cbid) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
      *name = "cuLaunchKernel";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
      *name = "cuGraphLaunch";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2:
      *name = "cuMemcpyHtoD_v2";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2:
      *name = "cuMemcpyDtoH_v2";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2:
      *name = "cuMemsetD8_v2";
      break;
    default:
      *name = "cuStreamSynchronize";
  }
  return CUPTI_SUCCESS;
}

// ---- The driver: what a program calls

FAKE_API CUresult cuDriverGetVersion(int* version) {
  *version = Is12() ? 12080 : 13000;
  return CUDA_SUCCESS;
}
/// As the driver does, the first call opens what CUDA_INJECTION64_PATH names.
FAKE_API CUresult cuInit(unsigned int) {
  static const bool once = [] {
    const char* path = std::getenv("CUDA_INJECTION64_PATH");
    void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW);
    if (library == nullptr) return false;
    const auto initialise = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
    return initialise != nullptr && initialise() != 0;
  }();
  (void)once;
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuDeviceGet(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice) { return CUDA_SUCCESS; }
FAKE_API CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
FAKE_API CUresult cuModuleLoadData(CUmodule*, const void*) { return CUDA_SUCCESS; }
FAKE_API CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) { return CUDA_SUCCESS; }
FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr*, size_t) { return CUDA_SUCCESS; }
FAKE_API CUresult cuStreamCreate(CUstream*, unsigned int) { return CUDA_SUCCESS; }
FAKE_API CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t bytes) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2);
  ReportCopy(call.correlation(), CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, bytes);
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t bytes) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2);
  ReportCopy(call.correlation(), CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, bytes);
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t bytes) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2);
  CUpti_ActivityMemset4 fill{};
  fill.bytes = bytes;
  Report(CUPTI_ACTIVITY_KIND_MEMSET, call.correlation(), fill);
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream, void**, void**) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  if (captured_kernels >= 0) {
    ++captured_kernels;
  } else {
    ReportKernel(call.correlation(), 0);
  }
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuStreamSynchronize(CUstream) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize);
  Is12() ? ReportSyncAs<CUpti_ActivitySynchronization>(call.correlation())
         : ReportSyncAs<CUpti_ActivitySynchronization2>(call.correlation());
  ReportOverhead();
  if (IsSet("FAKE_CUPTI_UNTIMED")) {
    CUpti_ActivityMemset4 running{};
    running.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    const std::lock_guard lock(mutex);
    Append(running);
  }
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  captured_kernels = 0;
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(static_cast<uintptr_t>(captured_kernels));
  captured_kernels = -1;
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph,
                                              unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(graph);
  return CUDA_SUCCESS;
}
FAKE_API CUresult cuGraphLaunch(CUgraphExec executable, CUstream) {
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
  if (IsEnabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) {
    Is12() ? ReportGraphAs<CUpti_ActivityGraphTrace>(call.correlation())
           : ReportGraphAs<CUpti_ActivityGraphTrace2>(call.correlation());
    return CUDA_SUCCESS;
  }
  const auto nodes = reinterpret_cast<uintptr_t>(executable);
  for (uintptr_t node = 1; node <= nodes; ++node)
    ReportKernel(call.correlation(), (kGraph << 32) | node);
  return CUDA_SUCCESS;
}
