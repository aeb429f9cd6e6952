// One rank's kernel launches take longer: the agent delays the launch call, by the kernel's name.
// Levels: 2 % to 200 % of a step of 6 ms.
#include "fault_injection/kinds/agent_delay.h"
#include "fault_injection/kinds/kinds.h"

namespace teller::fault_injection {

const FaultKind& LaunchDelayKind() {
  static const AgentDelayKind kind({.name = "launch_delay",
                                    .family = "driver_library",
                                    .view = "vertical",
                                    .where = "inside",
                                    .needs_agent = true,
                                    .layers = {"host_api"},
                                    .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
                                    .parameters = {}},
                                   {TELLER_TARGET_LAUNCH});
  return kind;
}

}  // namespace teller::fault_injection
