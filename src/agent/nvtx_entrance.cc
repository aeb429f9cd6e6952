// Entrance of NVTX 3: the injection named by NVTX_INJECTION64_PATH. Every library that uses NVTX
// brings a table of its own and initialises us once; all of them share the handlers below.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include "src/agent/background.h"
#include "src/agent/delays.h"
#include "src/agent/entrances.h"
#include "src/agent/nvtx_payload.h"
#include "src/agent/recorder.h"
#include "src/agent/settings.h"

namespace teller::agent {

namespace {

constexpr uint32_t kMaxDomains = 1024;
constexpr uint32_t kDefaultDomain = 0;
constexpr uint32_t kSlotBits = 16;
static_assert(kMaxOpenRanges == 1u << kSlotBits);
constexpr std::size_t kWideNameBytes = 1024;

/// A registered string or a domain's name; lives as long as the process, since ranges may outlive a
/// destroyed domain.
struct KeptText {
  uint32_t index;
  char text[1];
};

std::atomic<uint32_t> domain_count{1};  // 0 is the default domain

uint32_t DomainIndex(nvtxDomainHandle_t domain) noexcept {
  return domain == nullptr ? kDefaultDomain : reinterpret_cast<const KeptText*>(domain)->index;
}

KeptText* Keep(const char* text, uint32_t index) noexcept {
  if (text == nullptr) text = "";
  const std::size_t length = strlen(text);
  KeptText* kept = static_cast<KeptText*>(malloc(sizeof(KeptText) + length));
  if (kept == nullptr) return nullptr;
  kept->index = index;
  memcpy(kept->text, text, length + 1);
  return kept;
}

/// UTF-8 of a wide text, cut to the buffer.
const char* Narrow(const wchar_t* wide, char* text, std::size_t size) noexcept {
  std::size_t used = 0;
  const auto put = [&](unsigned value) { text[used++] = static_cast<char>(value); };
  for (; wide != nullptr && *wide != 0 && used + 5 < size; ++wide) {
    const auto code = static_cast<uint32_t>(*wide);
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | (code >> 6)), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | (code >> 12)), put(0x80 | ((code >> 6) & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | ((code >> 18) & 7)), put(0x80 | ((code >> 12) & 0x3f)),
          put(0x80 | ((code >> 6) & 0x3f)), put(0x80 | (code & 0x3f));
    }
  }
  text[used] = 0;
  return text;
}

/// The text of an event's message; `buffer` serves wide ones.
const char* MessageOf(const nvtxEventAttributes_t* attributes, char* buffer,
                      std::size_t size) noexcept {
  if (attributes == nullptr) return "";
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return attributes->message.ascii == nullptr ? "" : attributes->message.ascii;
    case NVTX_MESSAGE_TYPE_UNICODE:
      return Narrow(attributes->message.unicode, buffer, size);
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return attributes->message.registered == nullptr
                 ? ""
                 : reinterpret_cast<const KeptText*>(attributes->message.registered)->text;
    default:
      return "";
  }
}

constexpr uint32_t kRangeDelays =
    DelayAtStartBit(TELLER_TARGET_RANGE) | DelayAtEndBit(TELLER_TARGET_RANGE);

/// A payload that names a communicator and a size is a collective or point-to-point call of NCCL.
CommFacts CommFactsOf(const PayloadFacts& payload, const char* message) noexcept {
  if (!payload.has_communicator || payload.bytes < 0) return {};
  char text[24];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(payload.communicator));
  const bool point_to_point =
      strstr(message, "Send") != nullptr || strstr(message, "Recv") != nullptr;
  return {true, point_to_point, InternText(text, strlen(text)), payload.peer, payload.bytes};
}

/// NCCL's name of a call, with its reduction: 'ncclAllReduce(Sum)'; 'ncclAllReduce(op 0)' where no
/// enumeration names it.
const char* NameWithReduction(const char* message, const PayloadFacts& payload, char* text,
                              std::size_t size) noexcept {
  if (!payload.has_reduction) return message;
  if (payload.reduction != nullptr) {
    snprintf(text, size, "%s(%s)", message, payload.reduction);
  } else {
    snprintf(text, size, "%s(op %lld)", message, static_cast<long long>(payload.reduction_number));
  }
  return text;
}

int Push(const char* message, uint32_t domain, const PayloadFacts* payload = nullptr) noexcept {
  Thread* thread = CurrentThread();
  if (thread == nullptr) return NVTX_NO_PUSH_POP_TRACKING;
  if (thread->range_depth == kMaxRangeDepth) {
    CountDrop(TELLER_DROP_STACK_OVERFLOW);
    return static_cast<int>(kMaxRangeDepth + thread->ranges_too_deep++);
  }
  PushedRange& range = thread->ranges[thread->range_depth++];
  range.domain = domain;
  range.begin = 0;
  range.comm.is_comm = false;
  const uint32_t switches = Switches();
  if ((switches & (kRecordNvtx | kRangeDelays)) == 0)
    return static_cast<int>(thread->range_depth - 1);
  char buffer[kWideNameBytes];
  if (payload != nullptr) {
    range.comm = CommFactsOf(*payload, message);
    message = NameWithReduction(message, *payload, buffer, sizeof buffer);
  }
  range.name = NameId(thread, message);
  range.begin = Now();
  if ((switches & DelayAtStartBit(TELLER_TARGET_RANGE)) != 0)
    DelayAtStart({TELLER_TARGET_RANGE, message, 0});
  return static_cast<int>(thread->range_depth - 1);
}

/// Takes the innermost range of the domain off the stack; false where there is none.
bool TakeRange(Thread* thread, uint32_t domain, PushedRange& range) noexcept {
  for (uint32_t i = thread->range_depth; i > 0; --i) {
    if (thread->ranges[i - 1].domain != domain) continue;
    range = thread->ranges[i - 1];
    for (uint32_t later = i; later < thread->range_depth; ++later)
      thread->ranges[later - 1] = thread->ranges[later];
    --thread->range_depth;
    return true;
  }
  return false;
}

void DelayAtRangeEnd(uint32_t name, uint64_t begin) noexcept {
  char text[sizeof(TellerPerturbation::pattern)];
  CopyName(name, text, sizeof text);
  DelayAtEnd({TELLER_TARGET_RANGE, text, 0}, begin);
}

void WriteRange(Thread* thread, const PushedRange& range, uint64_t end) noexcept {
  RecordHead head{
      range.begin,        end,        range.name, TELLER_LAYER_ENGINE, TELLER_KIND_RANGE,
      TELLER_SOURCE_NVTX, thread->tid};
  if (!range.comm.is_comm) return WriteRecord(thread, head);
  head.layer = TELLER_LAYER_COMM;
  head.kind = range.comm.point_to_point ? TELLER_KIND_P2P : TELLER_KIND_COLLECTIVE;
  TellerRecord* record = NextRecord(thread);
  if (record == nullptr) return;
  FillRecord(*record, head);
  record->comm = range.comm.comm;
  record->bytes = range.comm.bytes;
  record->peer = range.comm.peer;
  CommitRecord(thread);
}

int Pop(uint32_t domain) noexcept {
  Thread* thread = CurrentThread();
  if (thread == nullptr) return NVTX_NO_PUSH_POP_TRACKING;
  if (thread->ranges_too_deep > 0)
    return static_cast<int>(kMaxRangeDepth + --thread->ranges_too_deep);
  PushedRange range;
  if (!TakeRange(thread, domain, range)) {
    CountDrop(TELLER_DROP_UNBALANCED_POP);
    return NVTX_NO_PUSH_POP_TRACKING;
  }
  const uint32_t switches = Switches();
  if (range.begin != 0 && (switches & (kRecordNvtx | kRangeDelays)) != 0) {
    if ((switches & DelayAtEndBit(TELLER_TARGET_RANGE)) != 0)
      DelayAtRangeEnd(range.name, range.begin);
    if ((switches & kRecordNvtx) != 0) WriteRange(thread, range, Now());
  }
  return static_cast<int>(thread->range_depth);
}

void Mark(const char* message) noexcept {
  if ((Switches() & kRecordNvtx) == 0) return;
  Thread* thread = CurrentThread();
  if (thread == nullptr) return;
  const uint64_t now = Now();
  WriteRecord(thread, {now, now, NameId(thread, message), TELLER_LAYER_ENGINE, TELLER_KIND_MARK,
                       TELLER_SOURCE_NVTX, thread->tid});
}

/// Range ids are (generation, slot); an even generation is a free slot. 0 is never an id of an open
/// range.
nvtxRangeId_t Start(const char* message) noexcept {
  const uint32_t switches = Switches();
  if ((switches & (kRecordNvtx | kRangeDelays)) == 0) return 0;
  Thread* thread = CurrentThread();
  if (thread == nullptr) return 0;
  const uint32_t first = g_state->started_hint.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kMaxOpenRanges; ++i) {
    const uint32_t slot = (first + i) % kMaxOpenRanges;
    StartedRange& range = g_state->started[slot];
    uint32_t generation = range.generation.load(std::memory_order_relaxed);
    if ((generation & 1u) != 0 || !range.generation.compare_exchange_strong(
                                      generation, generation + 1, std::memory_order_acquire)) {
      continue;
    }
    range.name = NameId(thread, message);
    range.tid = thread->tid;
    range.begin = Now();
    if ((switches & DelayAtStartBit(TELLER_TARGET_RANGE)) != 0)
      DelayAtStart({TELLER_TARGET_RANGE, message, 0});
    return (nvtxRangeId_t{generation + 1} << kSlotBits) | slot;
  }
  CountDrop(TELLER_DROP_STACK_OVERFLOW);
  return 0;
}

void End(nvtxRangeId_t id) noexcept {
  if (id == 0 || g_state == nullptr) return;  // started while nothing was recorded
  StartedRange& range = g_state->started[id & (kMaxOpenRanges - 1)];
  uint32_t generation = static_cast<uint32_t>(id >> kSlotBits);
  const uint32_t name = range.name, tid = range.tid;
  const uint64_t begin = range.begin;
  if ((generation & 1u) == 0 || range.generation.load(std::memory_order_acquire) != generation) {
    CountDrop(TELLER_DROP_UNKNOWN_RANGE_END);
    return;
  }
  if ((Switches() & DelayAtEndBit(TELLER_TARGET_RANGE)) != 0) DelayAtRangeEnd(name, begin);
  const uint64_t end = Now();
  if (!range.generation.compare_exchange_strong(generation, generation + 1,
                                                std::memory_order_release)) {
    CountDrop(TELLER_DROP_UNKNOWN_RANGE_END);  // two threads ended it
    return;
  }
  Thread* thread = CurrentThread();
  if (thread == nullptr || (Switches() & kRecordNvtx) == 0) return;
  const bool other_thread = thread->tid != tid;
  WriteRecord(thread,
              {begin, end, name, TELLER_LAYER_ENGINE, TELLER_KIND_START_END, TELLER_SOURCE_NVTX,
               tid, static_cast<uint16_t>(other_thread ? TELLER_RECORD_OTHER_THREAD_END : 0)});
}

// ---- Handlers, as the NVTX headers call them

void NVTX_API OnMarkEx(const nvtxEventAttributes_t* attributes) noexcept {
  char buffer[kWideNameBytes];
  Mark(MessageOf(attributes, buffer, sizeof buffer));
}
void NVTX_API OnMarkA(const char* message) noexcept { Mark(message); }
void NVTX_API OnMarkW(const wchar_t* message) noexcept {
  char buffer[kWideNameBytes];
  Mark(Narrow(message, buffer, sizeof buffer));
}

nvtxRangeId_t NVTX_API OnRangeStartEx(const nvtxEventAttributes_t* attributes) noexcept {
  char buffer[kWideNameBytes];
  return Start(MessageOf(attributes, buffer, sizeof buffer));
}
nvtxRangeId_t NVTX_API OnRangeStartA(const char* message) noexcept { return Start(message); }
nvtxRangeId_t NVTX_API OnRangeStartW(const wchar_t* message) noexcept {
  char buffer[kWideNameBytes];
  return Start(Narrow(message, buffer, sizeof buffer));
}
void NVTX_API OnRangeEnd(nvtxRangeId_t id) noexcept { End(id); }

int NVTX_API OnRangePushA(const char* message) noexcept { return Push(message, kDefaultDomain); }
int NVTX_API OnRangePushW(const wchar_t* message) noexcept {
  char buffer[kWideNameBytes];
  return Push(Narrow(message, buffer, sizeof buffer), kDefaultDomain);
}
int NVTX_API OnRangePop() noexcept { return Pop(kDefaultDomain); }

void NVTX_API OnDomainMarkEx(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) noexcept {
  OnMarkEx(attributes);
}
nvtxRangeId_t NVTX_API OnDomainRangeStartEx(nvtxDomainHandle_t,
                                            const nvtxEventAttributes_t* attributes) noexcept {
  return OnRangeStartEx(attributes);
}
void NVTX_API OnDomainRangeEnd(nvtxDomainHandle_t, nvtxRangeId_t id) noexcept { End(id); }
int PushWithAttributes(uint32_t domain, const nvtxEventAttributes_t* attributes) noexcept {
  char buffer[kWideNameBytes];
  const char* message = MessageOf(attributes, buffer, sizeof buffer);
  if (attributes == nullptr || !HasPayload(*attributes)) return Push(message, domain);
  const PayloadFacts payload = ReadPayload(domain, *attributes);
  return Push(message, domain, &payload);
}
int NVTX_API OnRangePushEx(const nvtxEventAttributes_t* attributes) noexcept {
  return PushWithAttributes(kDefaultDomain, attributes);
}
int NVTX_API OnDomainRangePushEx(nvtxDomainHandle_t domain,
                                 const nvtxEventAttributes_t* attributes) noexcept {
  return PushWithAttributes(DomainIndex(domain), attributes);
}
int NVTX_API OnDomainRangePop(nvtxDomainHandle_t domain) noexcept {
  return Pop(DomainIndex(domain));
}

nvtxStringHandle_t NVTX_API OnDomainRegisterStringA(nvtxDomainHandle_t, const char* text) noexcept {
  return reinterpret_cast<nvtxStringHandle_t>(Keep(text, 0));
}
nvtxStringHandle_t NVTX_API OnDomainRegisterStringW(nvtxDomainHandle_t,
                                                    const wchar_t* text) noexcept {
  char buffer[kWideNameBytes];
  return reinterpret_cast<nvtxStringHandle_t>(Keep(Narrow(text, buffer, sizeof buffer), 0));
}

nvtxDomainHandle_t NVTX_API OnDomainCreateA(const char* name) noexcept {
  // Past kMaxDomains domains share one index: their push/pop stacks are then one.
  const uint32_t index = domain_count.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<nvtxDomainHandle_t>(
      Keep(name, index < kMaxDomains ? index : kMaxDomains));
}
nvtxDomainHandle_t NVTX_API OnDomainCreateW(const wchar_t* name) noexcept {
  char buffer[kWideNameBytes];
  return OnDomainCreateA(Narrow(name, buffer, sizeof buffer));
}
void NVTX_API OnInitialize(const void*) noexcept {}

// ---- Payload extension

uint64_t NVTX_API OnPayloadSchemaRegister(nvtxDomainHandle_t domain,
                                          const nvtxPayloadSchemaAttr_t* attributes) noexcept {
  return RegisterPayloadSchema(DomainIndex(domain), attributes);
}
uint64_t NVTX_API OnPayloadEnumRegister(nvtxDomainHandle_t domain,
                                        const nvtxPayloadEnumAttr_t* attributes) noexcept {
  return RegisterPayloadEnum(DomainIndex(domain), attributes);
}
// Events whose message is part of their payload have no name here.
int NVTX_API OnRangePushPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* payloads,
                                std::size_t count) noexcept {
  const PayloadFacts payload = ReadPayload(DomainIndex(domain), payloads, count);
  return Push("", DomainIndex(domain), &payload);
}
int NVTX_API OnRangePopPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t*,
                               std::size_t) noexcept {
  return Pop(DomainIndex(domain));
}
nvtxRangeId_t NVTX_API OnRangeStartPayload(nvtxDomainHandle_t, const nvtxPayloadData_t*,
                                           std::size_t) noexcept {
  return Start("");
}
void NVTX_API OnRangeEndPayload(nvtxDomainHandle_t, nvtxRangeId_t id, const nvtxPayloadData_t*,
                                std::size_t) noexcept {
  End(id);
}
void NVTX_API OnMarkPayload(nvtxDomainHandle_t, const nvtxPayloadData_t*, std::size_t) noexcept {
  Mark("");
}
uint8_t NVTX_API OnDomainIsEnabled(nvtxDomainHandle_t) noexcept { return 1; }

// ---- Attaching

template <typename Function>
void Install(NvtxFunctionTable table, unsigned size, unsigned id, Function function) noexcept {
  if (id < size && table[id] != nullptr)
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

bool TableOf(const NvtxExportTableCallbacks* callbacks, NvtxCallbackModule module,
             NvtxFunctionTable& table, unsigned& size) noexcept {
  return callbacks->GetModuleFunctionTable(module, &table, &size) != 0 && table != nullptr;
}

void InstallCore(const NvtxExportTableCallbacks* callbacks) noexcept {
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!TableOf(callbacks, NVTX_CB_MODULE_CORE, table, size)) return;
  Install(table, size, NVTX_CBID_CORE_MarkEx, OnMarkEx);
  Install(table, size, NVTX_CBID_CORE_MarkA, OnMarkA);
  Install(table, size, NVTX_CBID_CORE_MarkW, OnMarkW);
  Install(table, size, NVTX_CBID_CORE_RangeStartEx, OnRangeStartEx);
  Install(table, size, NVTX_CBID_CORE_RangeStartA, OnRangeStartA);
  Install(table, size, NVTX_CBID_CORE_RangeStartW, OnRangeStartW);
  Install(table, size, NVTX_CBID_CORE_RangeEnd, OnRangeEnd);
  Install(table, size, NVTX_CBID_CORE_RangePushEx, OnRangePushEx);
  Install(table, size, NVTX_CBID_CORE_RangePushA, OnRangePushA);
  Install(table, size, NVTX_CBID_CORE_RangePushW, OnRangePushW);
  Install(table, size, NVTX_CBID_CORE_RangePop, OnRangePop);
}

void InstallDomains(const NvtxExportTableCallbacks* callbacks) noexcept {
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!TableOf(callbacks, NVTX_CB_MODULE_CORE2, table, size)) return;
  Install(table, size, NVTX_CBID_CORE2_DomainMarkEx, OnDomainMarkEx);
  Install(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, OnDomainRangeStartEx);
  Install(table, size, NVTX_CBID_CORE2_DomainRangeEnd, OnDomainRangeEnd);
  Install(table, size, NVTX_CBID_CORE2_DomainRangePushEx, OnDomainRangePushEx);
  Install(table, size, NVTX_CBID_CORE2_DomainRangePop, OnDomainRangePop);
  Install(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, OnDomainRegisterStringA);
  Install(table, size, NVTX_CBID_CORE2_DomainRegisterStringW, OnDomainRegisterStringW);
  Install(table, size, NVTX_CBID_CORE2_DomainCreateA, OnDomainCreateA);
  Install(table, size, NVTX_CBID_CORE2_DomainCreateW, OnDomainCreateW);
  Install(table, size, NVTX_CBID_CORE2_Initialize, OnInitialize);
}

template <typename Function>
void InstallExtension(const nvtxExtModuleSegment_t& segment, std::size_t id,
                      Function function) noexcept {
  if (id < segment.slotCount) segment.functionSlots[id] = reinterpret_cast<intptr_t>(function);
}

void InstallPayload(const nvtxExtModuleSegment_t& segment) noexcept {
  InstallExtension(segment, NVTX3EXT_CBID_nvtxPayloadSchemaRegister, OnPayloadSchemaRegister);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxPayloadEnumRegister, OnPayloadEnumRegister);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxMarkPayload, OnMarkPayload);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxRangePushPayload, OnRangePushPayload);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxRangePopPayload, OnRangePopPayload);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxRangeStartPayload, OnRangeStartPayload);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxRangeEndPayload, OnRangeEndPayload);
  InstallExtension(segment, NVTX3EXT_CBID_nvtxDomainIsEnabled, OnDomainIsEnabled);
}

}  // namespace

}  // namespace teller::agent

/// Other extensions than payloads are left to answer for themselves.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtxExtModuleInfo_t* module) {
  using namespace teller::agent;
  if (module == nullptr || module->moduleId != NVTX_EXT_PAYLOAD_MODULEID ||
      module->segmentsCount == 0 || !AttachProcess()) {
    return 0;
  }
  InstallPayload(module->segments[0]);
  return 1;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t export_table) {
  using namespace teller::agent;
  const int64_t begin_ns = MonotonicNs();
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || !AttachProcess()) return 0;
  InstallCore(callbacks);
  InstallDomains(callbacks);
  NoteToolNotLoaded("NVTX", LoadSettings().next_nvtx);
  NoteAttached(TELLER_SOURCE_NVTX, begin_ns);
  return 1;
}
