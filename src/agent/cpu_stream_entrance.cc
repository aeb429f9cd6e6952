// Entrance of the CPU device runtime: the activity interface of src/abi/activity.h.
#include <dlfcn.h>

#include <atomic>

#include "src/abi/activity.h"
#include "src/agent/background.h"
#include "src/agent/delays.h"
#include "src/agent/entrances.h"
#include "src/agent/recorder.h"
#include "src/agent/settings.h"

namespace teller::agent {

namespace {

constexpr uint32_t kDeviceTargets =
    DelayAtStartBit(TELLER_TARGET_COLLECTIVE) | DelayAtEndBit(TELLER_TARGET_COLLECTIVE) |
    DelayAtStartBit(TELLER_TARGET_LAUNCH) | DelayAtEndBit(TELLER_TARGET_LAUNCH) |
    DelayAtStartBit(TELLER_TARGET_COPY) | DelayAtEndBit(TELLER_TARGET_COPY) |
    DelayAtStartBit(TELLER_TARGET_SYNC) | DelayAtEndBit(TELLER_TARGET_SYNC) |
    DelayAtStartBit(TELLER_TARGET_KERNEL) | DelayAtEndBit(TELLER_TARGET_KERNEL);

std::atomic<void (*)(int)> enable_activity;
int activity_enabled = -1;  // background thread only, once attached

struct ActivityClass {
  TellerLayer layer;
  TellerKind kind;
  int32_t target;  ///< TellerTarget; -1: none
};

ActivityClass ClassOfCall(uint32_t kind) noexcept {
  switch (kind) {
    case TELLER_ACTIVITY_LAUNCH:
      return {TELLER_LAYER_HOST_API, TELLER_KIND_LAUNCH, TELLER_TARGET_LAUNCH};
    case TELLER_ACTIVITY_COLLECTIVE:  // the call only enqueues; the collective itself is the item
      return {TELLER_LAYER_HOST_API, TELLER_KIND_LAUNCH, -1};
    case TELLER_ACTIVITY_COPY:
      return {TELLER_LAYER_HOST_API, TELLER_KIND_COPY_CALL, TELLER_TARGET_COPY};
    case TELLER_ACTIVITY_MEMSET:
      return {TELLER_LAYER_HOST_API, TELLER_KIND_COPY_CALL, -1};
    case TELLER_ACTIVITY_SYNC:
      return {TELLER_LAYER_HOST_API, TELLER_KIND_SYNC_CALL, TELLER_TARGET_SYNC};
    default:
      return {TELLER_LAYER_HOST_API, TELLER_KIND_API_OTHER, -1};
  }
}

ActivityClass ClassOfItem(uint32_t kind) noexcept {
  switch (kind) {
    case TELLER_ACTIVITY_LAUNCH:
      return {TELLER_LAYER_DEVICE, TELLER_KIND_KERNEL, TELLER_TARGET_KERNEL};
    case TELLER_ACTIVITY_COLLECTIVE:
      return {TELLER_LAYER_COMM, TELLER_KIND_COLLECTIVE, TELLER_TARGET_COLLECTIVE};
    case TELLER_ACTIVITY_COPY:
      return {TELLER_LAYER_DEVICE, TELLER_KIND_MEMCPY, -1};
    case TELLER_ACTIVITY_MEMSET:
      return {TELLER_LAYER_DEVICE, TELLER_KIND_MEMSET, -1};
    default:
      return {TELLER_LAYER_DEVICE, TELLER_KIND_SYNC, -1};
  }
}

bool IsItem(const TellerActivityInfo& info) noexcept {
  return info.site >= TELLER_ACTIVITY_ITEM_BEGIN;
}
bool IsCollectiveItem(const TellerActivityInfo& info) noexcept {
  return IsItem(info) && info.kind == TELLER_ACTIVITY_COLLECTIVE;
}

/// What a pattern is compared with: the kernel for launches, kernels and collectives, the call's
/// name otherwise.
const char* MatchedName(const TellerActivityInfo& info) noexcept {
  const bool named_by_item = IsItem(info) || info.kind == TELLER_ACTIVITY_LAUNCH;
  return named_by_item && info.item_name != nullptr ? info.item_name : info.name;
}

ActivityClass ClassOf(const TellerActivityInfo& info) noexcept {
  return IsItem(info) ? ClassOfItem(info.kind) : ClassOfCall(info.kind);
}

void OnBegin(const TellerActivityInfo& info) noexcept {
  if (IsCollectiveItem(info)) g_state->device_collectives.fetch_add(1, std::memory_order_relaxed);
  *info.user = Now();
  const int32_t target = ClassOf(info).target;
  if (target < 0 || (Switches() & DelayAtStartBit(static_cast<uint32_t>(target))) == 0) return;
  DelayAtStart({static_cast<uint32_t>(target), MatchedName(info), info.correlation});
}

void FillActivity(TellerRecord& record, const TellerActivityInfo& info, Thread* thread) noexcept {
  record.correlation = info.correlation;
  record.bytes = info.bytes;
  if (!IsCollectiveItem(info)) return;
  record.comm = info.comm == nullptr ? UINT32_MAX : NameId(thread, info.comm);
  record.sequence = info.sequence;
  record.peer = info.peer;
}

void Record(const TellerActivityInfo& info, const ActivityClass& activity, uint64_t begin,
            uint64_t end) noexcept {
  Thread* thread = CurrentThread();
  if (thread == nullptr) return;
  const bool item = IsItem(info);
  const char* name = item && info.item_name != nullptr ? info.item_name : info.name;
  const RecordHead head{begin,
                        end,
                        NameId(thread, name),
                        activity.layer,
                        activity.kind,
                        TELLER_SOURCE_CPU_STREAM,
                        item ? info.stream : thread->tid,
                        static_cast<uint16_t>(item ? TELLER_RECORD_ON_DEVICE : 0)};
  TellerRecord* record = NextRecord(thread);
  if (record == nullptr) return;
  FillRecord(*record, head);
  FillActivity(*record, info, thread);
  CommitRecord(thread);
}

void OnEnd(const TellerActivityInfo& info) noexcept {
  const uint64_t begin = *info.user;
  if (begin == 0) return;  // began before we were switched on
  *info.user = 0;
  const ActivityClass activity = ClassOf(info);
  const uint32_t switches = Switches();
  if (activity.target >= 0 &&
      (switches & DelayAtEndBit(static_cast<uint32_t>(activity.target))) != 0) {
    DelayAtEnd({static_cast<uint32_t>(activity.target), MatchedName(info), info.correlation},
               begin);
  }
  const uint64_t end = Now();
  if (IsCollectiveItem(info)) g_state->device_collectives.fetch_sub(1, std::memory_order_relaxed);
  if ((switches & kRecordDevice) != 0) Record(info, activity, begin, end);
}

void OnActivity(void*, const TellerActivityInfo* info) noexcept {
  if (info->user == nullptr) return;
  if (info->site == TELLER_ACTIVITY_API_ENTER || info->site == TELLER_ACTIVITY_ITEM_BEGIN) {
    OnBegin(*info);
  } else {
    OnEnd(*info);
  }
}

}  // namespace

void FollowDeviceSwitches() noexcept {
  void (*enable)(int) = enable_activity.load(std::memory_order_acquire);
  if (enable == nullptr) return;
  const int wanted = (Switches() & (kRecordDevice | kDeviceTargets)) != 0 ? 1 : 0;
  if (wanted == activity_enabled) return;
  activity_enabled = wanted;
  enable(wanted);
}

}  // namespace teller::agent

extern "C" __attribute__((visibility("default"))) int InitializeInjectionCpuStream(
    const TellerActivityApi* api) {
  using namespace teller::agent;
  const int64_t begin_ns = MonotonicNs();
  if (api == nullptr || api->version != TELLER_ACTIVITY_VERSION || !AttachProcess()) return 0;
  if (api->subscribe(OnActivity, nullptr) == 0) return 0;
  api->enable((Switches() & (kRecordDevice | kDeviceTargets)) != 0 ? 1 : 0);
  enable_activity.store(api->enable, std::memory_order_release);
  NoteToolNotLoaded("cpu-stream", LoadSettings().next_activity);
  NoteAttached(TELLER_SOURCE_CPU_STREAM, begin_ns);
  return 1;
}
