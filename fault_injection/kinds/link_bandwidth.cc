// One rank's node sends at a capped rate. Levels: recorded time per step, spread over the exchanges
// of a step, for messages of kMessageBytes; larger messages are held longer.
#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {
namespace {

constexpr double kMessageBytes =
    1500;  // a decode step's all-reduce of 256 floats, with its headers

}  // namespace

FaultKind LinkBandwidthKind() {
  return LinkFaultKind(
      "link_bandwidth", {kExchangesPerStep},
      [](double step_us, const Magnitudes& settings) -> Magnitudes {
        return {{"bytes_per_second", kMessageBytes / (ExchangeUs(step_us, settings) * 1e-6)}};
      },
      [](const Magnitudes& magnitude) {
        return LinkPolicy{.bytes_per_second = magnitude.at("bytes_per_second")};
      });
}

}  // namespace teller::fault_injection
