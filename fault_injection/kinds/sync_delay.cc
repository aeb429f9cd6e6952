// One rank's synchronisation calls take longer: the agent delays the call, by the call's name.
// Levels: 2 % to 200 % of a step of 6 ms.
#include "fault_injection/kinds/agent_delay.h"
#include "fault_injection/kinds/kinds.h"

namespace teller::fault_injection {

const FaultKind& SyncDelayKind() {
  static const AgentDelayKind kind({.name = "sync_delay",
                                    .family = "driver_library",
                                    .view = "vertical",
                                    .where = "inside",
                                    .needs_agent = true,
                                    .layers = {"host_api"},
                                    .step_edges_us = {120, 300, 750, 1900, 4700, 12000},
                                    .parameters = {}},
                                   {TELLER_TARGET_SYNC});
  return kind;
}

}  // namespace teller::fault_injection
