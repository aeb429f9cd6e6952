// What one rank's node sends arrives later by a time that is drawn for each packet, uniform from
// zero to twice the mean; order is kept. Levels: mean recorded time per step, spread over the
// exchanges of a step.
#include <cmath>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {

FaultKind LinkJitterKind() {
  return LinkFaultKind(
      "link_jitter", {kExchangesPerStep},
      [](double step_us, const Magnitudes& settings) -> Magnitudes {
        return {{"jitter_ns", std::round(2 * ExchangeUs(step_us, settings) * 1000)}};
      },
      [](const Magnitudes& magnitude) {
        return LinkPolicy{.jitter_ns = static_cast<int64_t>(magnitude.at("jitter_ns"))};
      });
}

}  // namespace teller::fault_injection
