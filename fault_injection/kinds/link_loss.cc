// A share of what one rank's node sends is lost. TCP sends it again after its shortest timeout of
// about 200 ms or, with traffic behind it, after a round trip, so few steps are hit, and those
// hard. Levels: the mean over steps is as recorded time per step says, for losses that cost
// kRetransmitUs each.
#include <algorithm>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {
namespace {

constexpr double kRetransmitUs = 200'000;
constexpr double kMostLoss = 0.1;

}  // namespace

FaultKind LinkLossKind() {
  return LinkFaultKind(
      "link_loss", {kExchangesPerStep},
      [](double step_us, const Magnitudes& settings) -> Magnitudes {
        return {{"loss_probability",
                 std::min(kMostLoss, ExchangeUs(step_us, settings) / kRetransmitUs)}};
      },
      [](const Magnitudes& magnitude) {
        return LinkPolicy{.loss = magnitude.at("loss_probability")};
      });
}

}  // namespace teller::fault_injection
