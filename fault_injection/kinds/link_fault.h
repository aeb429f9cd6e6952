#pragma once

#include "fault_injection/fault_kind.h"
#include "fault_injection/packet_switch.h"

namespace teller::fault_injection {

/// A kind that perturbs what one rank's node sends to every other node. For the stretch (or its
/// placebo) the nodes' routes to each other are moved from their veth pair to a pair of TAP devices
/// that a PacketSwitch connects, and back.
class LinkFaultKind : public FaultKind {
 public:
  /// One magnitude by recorded time per exchange, in us; and the policy it means.
  using MagnitudeOf = std::map<std::string, double> (*)(double exchange_us);
  using PolicyOf = LinkPolicy (*)(const std::map<std::string, double>& magnitude);

  LinkFaultKind(std::string_view name, MagnitudeOf magnitude, PolicyOf policy);

  const KindDescription& description() const override { return description_; }
  std::map<std::string, double> Magnitude(double step_us, const ScheduledKind& settings,
                                          const FaultTarget& target) const override;
  double Dilation(const std::map<std::string, double>& magnitude, const FaultTarget& target,
                  double step_ms) const override;
  std::unique_ptr<Fault> Make(const PlannedFault& plan, FaultContext context) const override;

 private:
  KindDescription description_;
  MagnitudeOf magnitude_;
  PolicyOf policy_;
};

}  // namespace teller::fault_injection
