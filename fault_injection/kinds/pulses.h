#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

/// Sizes of kinds that are made of pulses: each as long as the recorded time of a step, with gaps
/// between them, uniform in [gap_low_ms, gap_high_ms].
struct PulseShape {
  std::string length_name;  ///< NAME_ns
  double gap_low_ms, gap_high_ms;
};

/// The pulses of one fault. One thread may set the share while others read.
class Pulses {
 public:
  Pulses(const PlannedFault& plan, const PulseShape& shape);
  int64_t LengthNs() const;  ///< of the next one; 0 for a placebo
  std::chrono::duration<double, std::milli> Gap(Random& random) const;
  void SetShare(double share) { share_.store(share, std::memory_order_relaxed); }

 private:
  double length_ns_, gap_low_ms_, gap_high_ms_;
  std::atomic<double> share_ = 1;
};

/// A kind made of pulses: `description` gets the settings of the gaps, and it can ramp.
FaultKind PulsedKind(KindDescription description, PulseShape shape,
                     std::function<std::unique_ptr<Fault>(const PlannedFault&, FaultContext)> make);

}  // namespace teller::fault_injection
