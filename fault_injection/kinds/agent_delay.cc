#include "fault_injection/kinds/agent_delay.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/abi/control_file.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

constexpr char kDelay[] = "delay_ns";

class AgentDelay : public Fault {
 public:
  AgentDelay(TellerPerturbation entry, FaultContext context)
      : entry_(entry), control_(context.control), slot_(context.slot) {}
  ~AgentDelay() override { Undo(); }

  void Apply() override { teller_control_set_perturbation(control_, slot_, &entry_); }
  void Undo() noexcept override { teller_control_clear_perturbation(control_, slot_); }
  /// What was achieved is the sum of the hits, which the injector counts for every kind.
  std::vector<Measure> Measures() const override { return {}; }

 private:
  TellerPerturbation entry_;
  TellerControl* control_;
  uint32_t slot_;
};

void CopyText(const std::string& text, char* field, std::size_t bytes) {
  TELLER_CHECK(text.size() < bytes);  // ReadSchedule refuses longer ones
  std::memcpy(field, text.c_str(), text.size() + 1);
}

}  // namespace

AgentDelayKind::AgentDelayKind(KindDescription description, std::vector<TellerTarget> layer_targets)
    : description_(std::move(description)), layer_targets_(std::move(layer_targets)) {}

std::map<std::string, double> AgentDelayKind::Magnitude(double step_us, const ScheduledKind&,
                                                        const FaultTarget& target) const {
  return {{kDelay, std::round(1000.0 * step_us / target.calls_per_step)}};
}

double AgentDelayKind::Dilation(const std::map<std::string, double>& magnitude,
                                const FaultTarget& target, double step_ms) const {
  return 1.0 + magnitude.at(kDelay) * target.calls_per_step / (step_ms * 1e6);
}

std::unique_ptr<Fault> AgentDelayKind::Make(const PlannedFault& plan, FaultContext context) const {
  const auto layer =
      std::find(description_.layers.begin(), description_.layers.end(), plan.target.layer);
  TELLER_CHECK(layer != description_.layers.end() && context.control != nullptr);
  TellerPerturbation entry{};
  entry.plan_id = plan.plan_id;
  entry.target = layer_targets_[static_cast<std::size_t>(layer - description_.layers.begin())];
  entry.mode = TELLER_DELAY_FIXED;
  entry.delay_ns = plan.placebo ? 0 : static_cast<uint64_t>(plan.magnitude.at(kDelay));
  entry.probability = 1.0;
  entry.every_n = 1;
  entry.seed = plan.seed;
  entry.rank_mask = context.any_rank ? ~uint64_t{0} : uint64_t{1} << Index(plan.target.rank);
  CopyText(plan.target.symbol, entry.pattern, sizeof entry.pattern);
  return std::make_unique<AgentDelay>(entry, context);
}

}  // namespace teller::fault_injection
