// One operator (on the host) or kernel (on its stream) of one rank takes longer.
// Levels: 2 % to 200 % of a step of 6 ms.
#include "fault_injection/kinds/agent_delay.h"
#include "fault_injection/kinds/kinds.h"

namespace teller::fault_injection {

const FaultKind& OperatorSlowdownKind() {
  static const AgentDelayKind kind({.name = "operator_slowdown",
                                    .family = "kernel",
                                    .view = "vertical",
                                    .where = "inside",
                                    .needs_agent = true,
                                    .layers = {"backend", "device"},
                                    .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
                                    .parameters = {}},
                                   {TELLER_TARGET_OPERATOR, TELLER_TARGET_KERNEL});
  return kind;
}

}  // namespace teller::fault_injection
