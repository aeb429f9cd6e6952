#include "fault_injection/kinds/kinds.h"

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

std::span<const FaultKind* const> AllKinds() {
  static const FaultKind* const kinds[] = {
      &CollectiveDelayKind(), &ProcessPauseKind(), &OperatorSlowdownKind(), &LaunchDelayKind(),
      &CopyDelayKind(),       &SyncDelayKind(),    &SchedulerStallKind(),   &TokenizerStallKind(),
      &CpuQuotaKind(),        &CpuHogKind(),       &LinkLatencyKind(),      &LinkJitterKind(),
      &LinkLossKind(),        &LinkBandwidthKind()};
  return kinds;
}

const FaultKind* FindKind(std::string_view name) {
  for (const FaultKind* kind : AllKinds()) {
    if (kind->description().name == name) return kind;
  }
  return nullptr;
}

}  // namespace teller::fault_injection
