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

const FaultKind& LinkLossKind() {
  static const LinkFaultKind kind(
      "link_loss",
      [](double exchange_us) -> std::map<std::string, double> {
        return {{"loss_probability", std::min(kMostLoss, exchange_us / kRetransmitUs)}};
      },
      [](const std::map<std::string, double>& magnitude) {
        return LinkPolicy{.loss = magnitude.at("loss_probability")};
      });
  return kind;
}

}  // namespace teller::fault_injection
