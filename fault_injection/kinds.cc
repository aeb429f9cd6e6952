#include "fault_injection/kinds/kinds.h"

#include <algorithm>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"

namespace teller::fault_injection {

std::span<const FaultKind> AllKinds() {
  static const std::vector<FaultKind> kinds = [] {
    std::vector<FaultKind> all = AgentDelayKinds();
    for (const auto make :
         {ProcessPauseKind, CpuQuotaKind, CpuHogKind, MemoryPressureKind, LinkLatencyKind,
          LinkJitterKind, LinkLossKind, LinkBandwidthKind, LinkFlapKind}) {
      all.push_back(make());
    }
    for (FaultKind& kind : ConfigurationKinds()) all.push_back(std::move(kind));
    return all;
  }();
  return kinds;
}

const FaultKind* FindKind(std::string_view name) {
  for (const FaultKind& kind : AllKinds()) {
    if (kind.description.name == name) return &kind;
  }
  return nullptr;
}

const cluster::RankProcess& TargetOf(const PlannedFault& plan, const FaultContext& context) {
  const auto target =
      std::find_if(context.ranks.begin(), context.ranks.end(),
                   [&](const auto& process) { return process.rank == plan.target.rank; });
  TELLER_CHECK(target != context.ranks.end());
  return *target;
}

void RecordInterval(const PlannedFault& plan, const cluster::RankProcess& target, int64_t begin_ns,
                    int64_t end_ns, const std::string& what, TruthWriter& truth) {
  truth.Action({.plan_id = plan.plan_id,
                .node = target.node,
                .rank = target.rank,
                .begin_ns = begin_ns + target.clock_offset_ns,
                .end_ns = end_ns + target.clock_offset_ns,
                .what = what,
                .where = "interval"});
}

}  // namespace teller::fault_injection
