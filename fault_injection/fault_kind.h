#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fault_injection/schedule.h"
#include "fault_injection/truth.h"
#include "src/abi/control.h"
#include "src/cluster/cluster.h"
#include "src/cluster/journal.h"
#include "src/cluster/rank_process.h"
#include "src/core/random.h"

namespace teller::fault_injection {

/// A setting of a kind beside its magnitude, with its default and its legal range.
struct KindParameter {
  std::string_view name;  ///< NAME_UNIT
  double fallback;
  double low, high;
};

/// Recorded microseconds per affected step: 2 % to 200 % of a step of 6 ms in five levels.
inline constexpr std::array<double, 6> kStepEdgesUs = {120, 300, 750, 1900, 4700, 12000};

/// The mode in which a delay follows the call's own time.
inline constexpr std::string_view kProportional = "proportional";

/// What a kind of fault is, before any use of it (docs/labels.md).
struct KindDescription {
  std::string_view name;
  std::string_view family;  ///< published class
  std::string_view view;    ///< 'horizontal' or 'vertical'
  std::string_view where;  ///< 'inside', 'before' or 'interval': where its time lies; 'stretch': it
                           ///< is measured for the whole stretch only
  bool needs_agent = false;
  bool needs_links = false;  ///< two nodes or more, with networks of their own
  bool by_run = false;    ///< part of the engine's configuration: held for a run, never scheduled
  bool can_ramp = false;  ///< Fault::SetShare does something
  std::string_view resource{};  ///< what two faults on one rank cannot use at once; empty: nothing
  std::vector<std::string_view>
      layers{};  ///< legal layers of a target, the default first; empty: the kind has no symbol
  std::vector<std::string_view> modes{};  ///< legal modes, the default first; empty: it has none
  std::array<double, 6> step_edges_us = kStepEdgesUs;  ///< default edges of the five levels
  std::vector<KindParameter> parameters{};
};

/// What a fault may use while it is on.
struct FaultContext {
  std::span<const cluster::RankProcess> ranks;
  TellerControl* control = nullptr;  ///< null where no agent is attached
  bool any_rank = false;             ///< act on processes of any rank and of none
  std::string run_id;                ///< names what a fault makes on the machine
  double healthy_cpu = 1;            ///< processors that the target used in the calibration window
  uint32_t slot = 0;                 ///< the fault's own entry of the control block
  cluster::Cluster* cluster = nullptr;  ///< null where the target is not on nodes of ours
  TruthWriter& truth;
  cluster::Journal& journal;
};

/// The process of a plan's rank; it is there (the injector checks before it makes a fault).
const cluster::RankProcess& TargetOf(const PlannedFault& plan, const FaultContext& context);

/// Records an action that holds up the whole of the target, on this process's clock.
void RecordInterval(const PlannedFault& plan, const cluster::RankProcess& target, int64_t begin_ns,
                    int64_t end_ns, const std::string& what, TruthWriter& truth);

/// Achieved effect of a stretch.
struct Measure {
  std::string name;
  std::string unit;
  double value = 0;
};

/// One planned fault on live processes. Apply is called once; Undo may be called again and is
/// called by the destructor.
class Fault {
 public:
  virtual ~Fault() = default;
  /// Switches the perturbation on; with `placebo` everything is done but the effect. Throws
  /// DeviceError.
  virtual void Apply() = 0;
  /// Between Apply and Undo, for kinds that can ramp: the effect is that share of its magnitude
  /// from now on. Not called for a placebo.
  virtual void SetShare(double /*share*/) {}
  /// Restores everything, also when the target has ended meanwhile. When it returns the
  /// perturbation is off.
  virtual void Undo() noexcept = 0;
  /// After Undo.
  virtual std::vector<Measure> Measures() const = 0;
  /// After Undo, for kinds that are measured by the stretch: did it measurably act?
  virtual bool Acted() const { return false; }
};

/// One kind of fault (CONTRIBUTING.md says what belongs to one).
struct FaultKind {
  KindDescription description;
  /// Turns recorded time per affected step into the kind's own magnitudes, by NAME_UNIT.
  std::function<Magnitudes(double step_us, const ScheduledKind& settings,
                           const FaultTarget& target)>
      magnitude;
  /// How much longer steps take on average while it is on, at least 1; decides how long a stretch
  /// of so many steps is.
  std::function<double(const Magnitudes& magnitude, const FaultTarget& target, double step_ms)>
      dilation;
  std::function<std::unique_ptr<Fault>(const PlannedFault& plan, FaultContext context)> make;
  /// Before the run: writes into the journal what the fault may leave behind. That is synced to
  /// disk, which may take seconds where others write; in a stretch it would be the stretch's end.
  std::function<void(const PlannedFault& plan, const FaultContext& context)> announce =
      [](const PlannedFault&, const FaultContext&) {};
  /// Empty, or what this machine lacks for it, in words.
  std::function<std::string()> why_unavailable = [] { return std::string(); };
};

/// Every kind, in a fixed order.
std::span<const FaultKind> AllKinds();
/// Null where there is none of that name.
const FaultKind* FindKind(std::string_view name);

}  // namespace teller::fault_injection
