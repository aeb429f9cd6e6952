// Every kind that the agent's perturb module carries out: a delay at named calls of one rank,
// through one entry of the control block. Proof of action: the agent's hits, drained by the
// injector.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "fault_injection/kinds/kinds.h"
#include "src/abi/control_file.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

constexpr char kDelay[] = "delay_ns";           // fixed
constexpr char kMeanDelay[] = "mean_delay_ns";  // random: exponential
constexpr char kFactor[] = "factor";            // proportional to the call's own time
constexpr char kProbability[] = "probability";
constexpr char kEveryN[] = "every_n";

constexpr std::string_view kFixed = "fixed", kRandom = "random";

/// One row of the table of kinds.
struct AgentKind {
  std::string_view name, family, view, where;
  std::vector<std::string_view> modes;  // the default first
  /// Legal layers of a target, the default first, and what the agent waits for there.
  std::vector<std::pair<std::string_view, TellerTarget>> layers;
};

std::vector<AgentKind> Table() {
  const std::vector<std::string_view> any = {kFixed, kRandom, kProportional};
  return {{"collective_delay",
           "communication",
           "horizontal",
           "inside",
           any,
           {{"comm", TELLER_TARGET_COLLECTIVE}}},
          // At NCCL's own calls (ncclAllReduce, ...), which the agent interposes.
          {"nccl_delay",
           "communication",
           "horizontal",
           "inside",
           any,
           {{"comm", TELLER_TARGET_COLLECTIVE}}},
          {"operator_slowdown",
           "kernel",
           "vertical",
           "inside",
           any,
           {{"backend", TELLER_TARGET_OPERATOR}, {"device", TELLER_TARGET_KERNEL}}},
          {"launch_delay",
           "driver_library",
           "vertical",
           "inside",
           any,
           {{"host_api", TELLER_TARGET_LAUNCH}}},
          {"copy_delay",
           "driver_library",
           "vertical",
           "inside",
           {kFixed, kRandom},
           {{"host_api", TELLER_TARGET_COPY}}},
          // A copy that has so much less bandwidth takes so many times its own time.
          {"copy_throttle",
           "memory",
           "vertical",
           "inside",
           {kProportional},
           {{"host_api", TELLER_TARGET_COPY}}},
          {"sync_delay",
           "driver_library",
           "vertical",
           "inside",
           any,
           {{"host_api", TELLER_TARGET_SYNC}}},
          {"scheduler_stall",
           "scheduling",
           "vertical",
           "inside",
           any,
           {{"engine", TELLER_TARGET_RANGE}}},
          // Once a request and beside the steps: no step is the slower for it.
          {"tokenizer_stall",
           "scheduling",
           "vertical",
           "stretch",
           any,
           {{"engine", TELLER_TARGET_RANGE}}}};
}

double Of(const Magnitudes& magnitude, const char* name, double fallback) {
  const auto found = magnitude.find(name);
  return found == magnitude.end() ? fallback : found->second;
}

/// Share of the matching calls that are delayed.
double HitShare(const Magnitudes& settings) {
  return Of(settings, kProbability, 1) / Of(settings, kEveryN, 1);
}

Magnitudes MagnitudeOf(double step_us, const ScheduledKind& settings, const FaultTarget& target) {
  const double hits = target.calls_per_step * HitShare(settings.parameters);
  Magnitudes magnitude;
  if (settings.mode == kProportional) {
    magnitude[kFactor] = step_us / hits / target.call_us;
  } else {
    magnitude[settings.mode == kRandom ? kMeanDelay : kDelay] = std::round(1000.0 * step_us / hits);
  }
  for (const char* name : {kProbability, kEveryN}) {
    if (Of(settings.parameters, name, 1) != 1) magnitude[name] = settings.parameters.at(name);
  }
  return magnitude;
}

double DilationOf(const Magnitudes& magnitude, const FaultTarget& target, double step_ms) {
  const double delay_ns = Of(magnitude, kDelay, Of(magnitude, kMeanDelay, 0)) +
                          Of(magnitude, kFactor, 0) * target.call_us * 1000;
  return 1.0 + delay_ns * (target.calls_per_step * HitShare(magnitude)) / (step_ms * 1e6);
}

void CopyText(const std::string& text, char* field, std::size_t bytes) {
  TELLER_CHECK(text.size() < bytes);  // ReadSchedule refuses longer ones
  std::memcpy(field, text.c_str(), text.size() + 1);
}

class AgentDelay : public Fault {
 public:
  AgentDelay(TellerPerturbation entry, FaultContext context)
      : entry_(entry), control_(context.control), slot_(context.slot) {}
  ~AgentDelay() override { Undo(); }

  void Apply() override { teller_control_set_perturbation(control_, slot_, &entry_); }
  void SetShare(double share) override {
    TellerPerturbation entry = entry_;
    entry.delay_ns = static_cast<uint64_t>(static_cast<double>(entry_.delay_ns) * share);
    entry.factor *= share;
    teller_control_set_perturbation(control_, slot_, &entry);
  }
  void Undo() noexcept override { teller_control_clear_perturbation(control_, slot_); }
  /// What was achieved is the sum of the hits, which the injector counts for every kind.
  std::vector<Measure> Measures() const override { return {}; }

 private:
  TellerPerturbation entry_;
  TellerControl* control_;
  uint32_t slot_;
};

void SetSize(const Magnitudes& magnitude, TellerPerturbation& entry) {
  entry.mode = magnitude.contains(kFactor)      ? TELLER_DELAY_PROPORTIONAL
               : magnitude.contains(kMeanDelay) ? TELLER_DELAY_RANDOM
                                                : TELLER_DELAY_FIXED;
  entry.delay_ns = static_cast<uint64_t>(Of(magnitude, kDelay, Of(magnitude, kMeanDelay, 0)));
  entry.factor = Of(magnitude, kFactor, 0);
  entry.probability = Of(magnitude, kProbability, 1);
  entry.every_n = static_cast<uint32_t>(Of(magnitude, kEveryN, 1));
}

/// An engine's own processes (its scheduler, its tokenizer) may have no rank: there the node tells
/// whose they are.
void SetProcesses(const PlannedFault& plan, const FaultContext& context,
                  TellerPerturbation& entry) {
  const bool by_node = entry.target == TELLER_TARGET_RANGE && context.cluster != nullptr;
  entry.rank_mask =
      context.any_rank || by_node ? ~uint64_t{0} : uint64_t{1} << Index(plan.target.rank);
  if (by_node) CopyText(TargetOf(plan, context).node, entry.node, sizeof entry.node);
}

std::unique_ptr<Fault> MakeFault(const AgentKind& kind, const PlannedFault& plan,
                                 FaultContext context) {
  const auto layer = std::find_if(kind.layers.begin(), kind.layers.end(), [&](const auto& legal) {
    return legal.first == plan.target.layer;
  });
  TELLER_CHECK(layer != kind.layers.end() && context.control != nullptr);
  TellerPerturbation entry{};
  entry.plan_id = plan.plan_id;
  entry.target = layer->second;
  SetSize(plan.placebo ? Magnitudes{} : plan.magnitude, entry);
  entry.seed = plan.seed;
  SetProcesses(plan, context, entry);
  CopyText(plan.target.symbol, entry.pattern, sizeof entry.pattern);
  return std::make_unique<AgentDelay>(entry, context);
}

FaultKind KindOf(const AgentKind& row) {
  std::vector<std::string_view> layers;
  for (const auto& [layer, target] : row.layers) layers.push_back(layer);
  return {.description = {.name = row.name,
                          .family = row.family,
                          .view = row.view,
                          .where = row.where,
                          .needs_agent = true,
                          .can_ramp = true,
                          .layers = layers,
                          .modes = row.modes,
                          .parameters = {{kProbability, 1, 0.0001, 1}, {kEveryN, 1, 1, 1e6}}},
          .magnitude = MagnitudeOf,
          .dilation = DilationOf,
          .make = [row](const PlannedFault& plan, FaultContext context) {
            return MakeFault(row, plan, context);
          }};
}

}  // namespace

std::vector<FaultKind> AgentDelayKinds() {
  std::vector<FaultKind> kinds;
  for (const AgentKind& row : Table()) kinds.push_back(KindOf(row));
  return kinds;
}

}  // namespace teller::fault_injection
