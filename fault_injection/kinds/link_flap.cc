// One rank's node cannot send for some milliseconds, again and again: what it sends meanwhile is
// lost. TCP sends it again after its shortest timeout of about 200 ms, so few steps are hit, and
// those hard. Levels: the mean over steps is as recorded time per step says, for gaps that cost
// kRetransmitUs each.
#include <algorithm>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {
namespace {

constexpr double kRetransmitUs = 200'000;
constexpr char kDown[] = "down_ms";
constexpr char kStep[] = "nominal_step_ms";
constexpr char kUp[] = "up_mean_ms";

}  // namespace

FaultKind LinkFlapKind() {
  return LinkFaultKind(
      "link_flap", {{kDown, 10, 0.1, 10000}, {kStep, 6, 0.01, 60000}},
      [](double step_us, const Magnitudes& settings) -> Magnitudes {
        return {{kDown, settings.at(kDown)}, {kUp, settings.at(kStep) * kRetransmitUs / step_us}};
      },
      [](const Magnitudes& magnitude) {
        return LinkPolicy{.down_ns = static_cast<int64_t>(magnitude.at(kDown) * 1e6),
                          .up_mean_ns = static_cast<int64_t>(magnitude.at(kUp) * 1e6)};
      });
}

}  // namespace teller::fault_injection
