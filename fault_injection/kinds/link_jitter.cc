// What one rank's node sends arrives later by a time that is drawn for each packet, uniform from
// zero to twice the mean; order is kept. Levels: mean recorded time per step, spread over the
// exchanges of a step.
#include <cmath>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {

const FaultKind& LinkJitterKind() {
  static const LinkFaultKind kind(
      "link_jitter",
      [](double exchange_us) -> std::map<std::string, double> {
        return {{"jitter_ns", std::round(2 * exchange_us * 1000)}};
      },
      [](const std::map<std::string, double>& magnitude) {
        return LinkPolicy{.jitter_ns = static_cast<int64_t>(magnitude.at("jitter_ns"))};
      });
  return kind;
}

}  // namespace teller::fault_injection
