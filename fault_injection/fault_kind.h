#pragma once

#include <array>
#include <memory>
#include <optional>
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

/// What a kind of fault is, before any use of it (docs/labels.md).
struct KindDescription {
  std::string_view name;
  std::string_view family;  ///< published class
  std::string_view view;    ///< 'horizontal' or 'vertical'
  std::string_view where;   ///< 'inside', 'before' or 'interval': where its time lies
  bool needs_agent = false;
  bool needs_links = false;  ///< two nodes or more, with networks of their own
  std::vector<std::string_view>
      layers;  ///< legal layers of a target, the default first; empty: the kind has no symbol
  std::array<double, 6> step_edges_us{};  ///< default edges of the five levels: recorded
                                          ///< microseconds per affected step
  std::vector<KindParameter> parameters;
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
  /// Restores everything, also when the target has ended meanwhile. When it returns the
  /// perturbation is off.
  virtual void Undo() noexcept = 0;
  /// After Undo.
  virtual std::vector<Measure> Measures() const = 0;
};

/// One kind of fault. A kind is one file, one entry in kinds.cc, one section of docs/labels.md and
/// one test.
class FaultKind {
 public:
  virtual ~FaultKind() = default;
  virtual const KindDescription& description() const = 0;
  /// Empty, or what this machine lacks for it, in words.
  virtual std::string WhyUnavailable() const { return {}; }
  /// Turns recorded time per affected step into the kind's own magnitudes, by NAME_UNIT.
  virtual std::map<std::string, double> Magnitude(double step_us, const ScheduledKind& settings,
                                                  const FaultTarget& target) const = 0;
  /// How much longer steps take on average while it is on, at least 1; decides how long a stretch
  /// of so many steps is.
  virtual double Dilation(const std::map<std::string, double>& magnitude, const FaultTarget& target,
                          double step_ms) const = 0;
  virtual std::unique_ptr<Fault> Make(const PlannedFault& plan, FaultContext context) const = 0;
};

/// Every kind, in a fixed order.
std::span<const FaultKind* const> AllKinds();
/// Null where there is none of that name.
const FaultKind* FindKind(std::string_view name);

}  // namespace teller::fault_injection
