// Everything one rank's node sends arrives later, by a fixed time. Levels: recorded time per step,
// spread over the exchanges of a step.
#include <cmath>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {

const FaultKind& LinkLatencyKind() {
  static const LinkFaultKind kind(
      "link_latency",
      [](double exchange_us) -> std::map<std::string, double> {
        return {{"delay_ns", std::round(exchange_us * 1000)}};
      },
      [](const std::map<std::string, double>& magnitude) {
        return LinkPolicy{.delay_ns = static_cast<int64_t>(magnitude.at("delay_ns"))};
      });
  return kind;
}

}  // namespace teller::fault_injection
