// The scheduler's range (NVTX or user scope) takes longer on one rank.
// Levels: 2 % to 200 % of a step of 6 ms.
#include "fault_injection/kinds/agent_delay.h"
#include "fault_injection/kinds/kinds.h"

namespace teller::fault_injection {

const FaultKind& SchedulerStallKind() {
  static const AgentDelayKind kind({.name = "scheduler_stall",
                                    .family = "scheduling",
                                    .view = "vertical",
                                    .where = "inside",
                                    .needs_agent = true,
                                    .layers = {"engine"},
                                    .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
                                    .parameters = {}},
                                   {TELLER_TARGET_RANGE});
  return kind;
}

}  // namespace teller::fault_injection
