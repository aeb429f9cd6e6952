// One rank comes late to its collectives: the agent delays each matching one before it begins.
// Levels: 2 % to 200 % of a step of 6 ms.
#include "fault_injection/kinds/agent_delay.h"
#include "fault_injection/kinds/kinds.h"

namespace teller::fault_injection {

const FaultKind& CollectiveDelayKind() {
  static const AgentDelayKind kind({.name = "collective_delay",
                                    .family = "communication",
                                    .view = "horizontal",
                                    .where = "inside",
                                    .needs_agent = true,
                                    .layers = {"comm"},
                                    .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
                                    .parameters = {}},
                                   {TELLER_TARGET_COLLECTIVE});
  return kind;
}

}  // namespace teller::fault_injection
