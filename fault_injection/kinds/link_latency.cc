// Everything one rank's node sends arrives later, by a fixed time. Levels: recorded time per step,
// spread over the exchanges of a step.
#include <cmath>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {

FaultKind LinkLatencyKind() {
  return LinkFaultKind(
      "link_latency", {kExchangesPerStep},
      [](double step_us, const Magnitudes& settings) -> Magnitudes {
        return {{"delay_ns", std::round(ExchangeUs(step_us, settings) * 1000)}};
      },
      [](const Magnitudes& magnitude) {
        return LinkPolicy{.delay_ns = static_cast<int64_t>(magnitude.at("delay_ns"))};
      });
}

}  // namespace teller::fault_injection
