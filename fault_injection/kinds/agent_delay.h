#pragma once

#include <memory>
#include <vector>

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

/// A kind that the agent's perturb module carries out: a fixed delay at named calls of one rank,
/// through one entry of the control block. Proof of action: the agent's hits, drained by the
/// injector.
class AgentDelayKind : public FaultKind {
 public:
  /// `layer_targets` gives each legal layer's TellerTarget, in the order of `description.layers`.
  AgentDelayKind(KindDescription description, std::vector<TellerTarget> layer_targets);

  const KindDescription& description() const override { return description_; }
  std::map<std::string, double> Magnitude(double step_us, const ScheduledKind& settings,
                                          const FaultTarget& target) const override;
  double Dilation(const std::map<std::string, double>& magnitude, const FaultTarget& target,
                  double step_ms) const override;
  std::unique_ptr<Fault> Make(const PlannedFault& plan, FaultContext context) const override;

 private:
  KindDescription description_;
  std::vector<TellerTarget> layer_targets_;
};

}  // namespace teller::fault_injection
