#include "src/agent/cupti_decoder.h"

#include <atomic>
#include <cstddef>
#include <cstring>

namespace teller::agent {

namespace {

// CUPTI 12 and 13 share the fields that are read below; newer structures only add behind them.
#define TELLER_SAME_OFFSET(a, b, field) \
  static_assert(offsetof(a, field) == offsetof(b, field), "CUPTI structures differ")
#define TELLER_SAME_WORK(a, b)        \
  TELLER_SAME_OFFSET(a, b, start);    \
  TELLER_SAME_OFFSET(a, b, end);      \
  TELLER_SAME_OFFSET(a, b, streamId); \
  TELLER_SAME_OFFSET(a, b, correlationId)
TELLER_SAME_WORK(CUpti_ActivityKernel9, CUpti_ActivityKernel11);
TELLER_SAME_OFFSET(CUpti_ActivityKernel9, CUpti_ActivityKernel11, name);
TELLER_SAME_OFFSET(CUpti_ActivityKernel9, CUpti_ActivityKernel11, graphNodeId);
TELLER_SAME_WORK(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6);
TELLER_SAME_OFFSET(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, bytes);
TELLER_SAME_OFFSET(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, graphNodeId);
TELLER_SAME_WORK(CUpti_ActivityMemset3, CUpti_ActivityMemset4);
TELLER_SAME_OFFSET(CUpti_ActivityMemset3, CUpti_ActivityMemset4, bytes);
TELLER_SAME_WORK(CUpti_ActivitySynchronization, CUpti_ActivitySynchronization2);
TELLER_SAME_WORK(CUpti_ActivityGraphTrace, CUpti_ActivityGraphTrace2);
TELLER_SAME_OFFSET(CUpti_ActivityOverhead, CUpti_ActivityOverhead3, start);
TELLER_SAME_OFFSET(CUpti_ActivityOverhead, CUpti_ActivityOverhead3, end);
#undef TELLER_SAME_WORK
#undef TELLER_SAME_OFFSET

constexpr uint32_t kCachedCalls = 2048;

void SetGraphNode(TellerRecord& record, uint64_t node) noexcept {
  record.graph_node = static_cast<uint32_t>(node);
  for (int i = 0; i < 3; ++i) record.graph[i] = static_cast<uint8_t>(node >> (32 + 8 * i));
}

CuptiEvent EventAt(uint64_t begin, uint64_t end, TellerLayer layer, TellerKind kind) noexcept {
  CuptiEvent event{};
  event.record.begin = begin;
  event.record.end = end;
  event.record.bytes = -1;
  event.record.comm = UINT32_MAX;
  event.record.sequence = event.record.peer = -1;
  event.record.layer = static_cast<uint8_t>(layer);
  event.record.kind = static_cast<uint8_t>(kind);
  event.record.source = TELLER_SOURCE_CUPTI;
  return event;
}

/// Device work: kernels, copies, fills, waits and whole graphs lie on a stream.
template <typename Activity>
CuptiEvent WorkAt(const Activity& activity, TellerLayer layer, TellerKind kind,
                  const char* name) noexcept {
  CuptiEvent event = EventAt(activity.start, activity.end, layer, kind);
  event.record.track = activity.streamId;
  event.record.correlation = activity.correlationId;
  event.record.flags = TELLER_RECORD_ON_DEVICE;
  event.name = name == nullptr ? "(unnamed)" : name;
  return event;
}

const char* CopyName(uint8_t kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "Memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "Memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "Memcpy DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "Memcpy HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

const char* SyncName(CUpti_ActivitySynchronizationType type) noexcept {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "Event Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return "Stream Wait Event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "Stream Sync";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "Context Sync";
    default:
      return "Sync";
  }
}

bool Contains(const char* name, const char* part) noexcept { return strstr(name, part) != nullptr; }

TellerKind KindOfCall(const char* name) noexcept {
  if (Contains(name, "Launch")) return TELLER_KIND_LAUNCH;
  if (Contains(name, "Memcpy") || Contains(name, "Memset")) return TELLER_KIND_COPY_CALL;
  if (Contains(name, "Synchronize") || Contains(name, "WaitEvent")) return TELLER_KIND_SYNC_CALL;
  return TELLER_KIND_API_OTHER;
}

/// NCCL's kernels, by their plain or their mangled name.
bool IsNcclKernel(const char* name) noexcept {
  if (name[0] == '_' && name[1] == 'Z') {
    for (name += 2; *name >= '0' && *name <= '9';) ++name;
  }
  return strncmp(name, "nccl", 4) == 0;
}

/// Names and kinds of calls by number; libcupti is asked once for each.
struct KnownCall {
  std::atomic<const char*> name;
  std::atomic<uint8_t> kind;
};
KnownCall runtime_calls[kCachedCalls], driver_calls[kCachedCalls];

void NameCall(const CuptiFunctions& cupti, const CUpti_ActivityAPI& call,
              CuptiEvent& event) noexcept {
  const bool runtime = call.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
  const char* name = nullptr;
  KnownCall* known =
      call.cbid < kCachedCalls ? &(runtime ? runtime_calls : driver_calls)[call.cbid] : nullptr;
  if (known != nullptr) name = known->name.load(std::memory_order_acquire);
  if (name != nullptr) {
    event.name = name;
    event.record.kind = known->kind.load(std::memory_order_relaxed);
    return;
  }
  const CUpti_CallbackDomain domain =
      runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (cupti.callback_name(domain, call.cbid, &name) != CUPTI_SUCCESS || name == nullptr)
    name = "(unknown call)";
  event.name = name;
  event.record.kind = static_cast<uint8_t>(KindOfCall(name));
  if (known == nullptr) return;
  known->kind.store(event.record.kind, std::memory_order_relaxed);
  known->name.store(name, std::memory_order_release);
}

CuptiEvent CallAt(const CuptiFunctions& cupti, const CUpti_ActivityAPI& call) noexcept {
  CuptiEvent event = EventAt(call.start, call.end, TELLER_LAYER_HOST_API, TELLER_KIND_API_OTHER);
  event.record.track = call.threadId;
  event.record.correlation = call.correlationId;
  NameCall(cupti, call, event);
  return event;
}

CuptiEvent KernelAt(const CUpti_ActivityKernel9& kernel) noexcept {
  CuptiEvent event = WorkAt(kernel, TELLER_LAYER_DEVICE, TELLER_KIND_KERNEL, kernel.name);
  SetGraphNode(event.record, kernel.graphNodeId);
  if (!IsNcclKernel(event.name)) return event;
  event.record.layer = TELLER_LAYER_COMM;
  event.record.kind = Contains(event.name, "SendRecv") ? TELLER_KIND_P2P : TELLER_KIND_COLLECTIVE;
  return event;
}

/// Within a device or between host and device, or between two devices.
template <typename Copy>
CuptiEvent CopyAt(const Copy& copy) noexcept {
  CuptiEvent event = WorkAt(copy, TELLER_LAYER_DEVICE, TELLER_KIND_MEMCPY, CopyName(copy.copyKind));
  event.record.bytes = static_cast<int64_t>(copy.bytes);
  SetGraphNode(event.record, copy.graphNodeId);
  return event;
}

CuptiEvent FillAt(const CUpti_ActivityMemset3& fill) noexcept {
  CuptiEvent event = WorkAt(fill, TELLER_LAYER_DEVICE, TELLER_KIND_MEMSET, "Memset");
  event.record.bytes = static_cast<int64_t>(fill.bytes);
  SetGraphNode(event.record, fill.graphNodeId);
  return event;
}

/// The last operator that CUPTI named; its record stands before that of the call it belongs to.
struct NamedOperator {
  uint32_t correlation = 0;
  int32_t number = -1;
};

/// Takes what says something of other records; false where the record is an event of its own.
bool TakeAside(const CUpti_Activity& activity, NamedOperator& named, CuptiCounts& counts) noexcept {
  const void* record = &activity;
  if (activity.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& external = *static_cast<const CUpti_ActivityExternalCorrelation*>(record);
    if (external.externalKind == kOperatorCorrelation)
      named = {external.correlationId, static_cast<int32_t>(external.externalId)};
    return true;
  }
  if (activity.kind == CUPTI_ACTIVITY_KIND_OVERHEAD) {
    const auto& overhead = *static_cast<const CUpti_ActivityOverhead*>(record);
    if (overhead.end > overhead.start) counts.overhead_ns += overhead.end - overhead.start;
    return true;
  }
  return false;
}

bool IsCall(const TellerRecord& record) noexcept { return record.layer == TELLER_LAYER_HOST_API; }

bool IsTimed(const TellerRecord& record) noexcept { return record.begin != 0 && record.end != 0; }

/// False for kinds that are not kept.
bool Decode(const CuptiFunctions& cupti, const CUpti_Activity& activity,
            CuptiEvent& event) noexcept {
  const void* record = &activity;
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      event = CallAt(cupti, *static_cast<const CUpti_ActivityAPI*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      event = KernelAt(*static_cast<const CUpti_ActivityKernel9*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      event = CopyAt(*static_cast<const CUpti_ActivityMemcpy5*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      event = CopyAt(*static_cast<const CUpti_ActivityMemcpyPtoP4*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      event = FillAt(*static_cast<const CUpti_ActivityMemset3*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      const auto& sync = *static_cast<const CUpti_ActivitySynchronization*>(record);
      event = WorkAt(sync, TELLER_LAYER_DEVICE, TELLER_KIND_SYNC, SyncName(sync.type));
      return true;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      event = WorkAt(*static_cast<const CUpti_ActivityGraphTrace*>(record), TELLER_LAYER_DEVICE,
                     TELLER_KIND_GRAPH, "CUDA Graph");
      return true;
    default:
      return false;
  }
}

}  // namespace

CuptiCounts DecodeCuptiBuffer(const CuptiFunctions& cupti, uint8_t* buffer, size_t valid_bytes,
                              CuptiReceiver& receiver) noexcept {
  CuptiCounts counts;
  CUpti_Activity* activity = nullptr;
  NamedOperator named;
  const uint8_t* before = nullptr;
  CUptiResult result;
  while ((result = cupti.next_record(buffer, valid_bytes, &activity)) == CUPTI_SUCCESS) {
    const auto* at = reinterpret_cast<const uint8_t*>(activity);
    if (at <= before) break;  // a damaged buffer must not be walked for ever
    before = at;
    CuptiEvent event;
    if (TakeAside(*activity, named, counts)) continue;
    if (!Decode(cupti, *activity, event)) {
      ++counts.ignored;
    } else if (!IsTimed(event.record)) {
      ++counts.untimed;
    } else {
      if (IsCall(event.record) && event.record.correlation == named.correlation)
        event.record.sequence = named.number;
      ++counts.events;
      receiver.Take(event);
    }
  }
  counts.damaged = result != CUPTI_ERROR_MAX_LIMIT_REACHED;
  return counts;
}

}  // namespace teller::agent
