#include "fault_injection/kinds/pulses.h"

#include <cmath>

namespace teller::fault_injection {
namespace {

constexpr char kGapLow[] = "gap_low_ms";
constexpr char kGapHigh[] = "gap_high_ms";

}  // namespace

Pulses::Pulses(const PlannedFault& plan, const PulseShape& shape)
    : length_ns_(plan.placebo ? 0 : plan.magnitude.at(shape.length_name)),
      gap_low_ms_(plan.magnitude.at(kGapLow)),
      gap_high_ms_(plan.magnitude.at(kGapHigh)) {}

int64_t Pulses::LengthNs() const {
  return static_cast<int64_t>(length_ns_ * share_.load(std::memory_order_relaxed));
}

std::chrono::duration<double, std::milli> Pulses::Gap(Random& random) const {
  return std::chrono::duration<double, std::milli>(random.Uniform(gap_low_ms_, gap_high_ms_));
}

FaultKind PulsedKind(
    KindDescription description, PulseShape shape,
    std::function<std::unique_ptr<Fault>(const PlannedFault&, FaultContext)> make) {
  description.can_ramp = true;
  description.parameters.push_back({kGapLow, shape.gap_low_ms, 0.1, 10000});
  description.parameters.push_back({kGapHigh, shape.gap_high_ms, 0.1, 10000});
  const std::string length = shape.length_name;
  return {.description = std::move(description),
          .magnitude =
              [length](double step_us, const ScheduledKind& settings, const FaultTarget&) {
                Magnitudes magnitude = settings.parameters;
                magnitude[length] = std::round(step_us * 1000);
                return magnitude;
              },
          .dilation =
              [length](const Magnitudes& magnitude, const FaultTarget&, double) {
                const double gap_ns = 0.5e6 * (magnitude.at(kGapLow) + magnitude.at(kGapHigh));
                return 1.0 + magnitude.at(length) / gap_ns;
              },
          .make = std::move(make)};
}

}  // namespace teller::fault_injection
