// One rank's node sends at a capped rate. Levels: recorded time per step, spread over the exchanges
// of a step, for messages of kMessageBytes; larger messages are held longer.
#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/link_fault.h"

namespace teller::fault_injection {
namespace {

constexpr double kMessageBytes =
    1500;  // a decode step's all-reduce of 256 floats, with its headers

}  // namespace

const FaultKind& LinkBandwidthKind() {
  static const LinkFaultKind kind(
      "link_bandwidth",
      [](double exchange_us) -> std::map<std::string, double> {
        return {{"bytes_per_second", kMessageBytes / (exchange_us * 1e-6)}};
      },
      [](const std::map<std::string, double>& magnitude) {
        return LinkPolicy{.bytes_per_second = magnitude.at("bytes_per_second")};
      });
  return kind;
}

}  // namespace teller::fault_injection
