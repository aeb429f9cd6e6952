#pragma once

#include "fault_injection/fault_kind.h"
#include "fault_injection/packet_switch.h"

namespace teller::fault_injection {

/// Messages of a step that a link carries.
inline constexpr KindParameter kExchangesPerStep = {"exchanges_per_step", 9, 0.001, 1e6};

/// Recorded time of one exchange, in us.
inline double ExchangeUs(double step_us, const Magnitudes& settings) {
  return step_us / settings.at(std::string(kExchangesPerStep.name));
}

/// A magnitude by recorded time per step, in us, and the settings of the kind.
using LinkMagnitude = Magnitudes (*)(double step_us, const Magnitudes& settings);
/// What a magnitude means.
using LinkPolicyOf = LinkPolicy (*)(const Magnitudes& magnitude);

/// A kind that perturbs what one rank's node sends to every other node. For the stretch (or its
/// placebo) the nodes' routes to each other are moved from their veth pair to a pair of TAP devices
/// that a PacketSwitch connects, and back.
FaultKind LinkFaultKind(std::string_view name, std::vector<KindParameter> settings,
                        LinkMagnitude magnitude_of, LinkPolicyOf policy_of);

}  // namespace teller::fault_injection
