#include "fault_injection/injector.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "fault_injection/fault_kind.h"
#include "fault_injection/hit_drain.h"
#include "fault_injection/truth.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"

namespace teller::fault_injection {
namespace {

/// How soon an interrupt or a dead rank is noticed.
constexpr int64_t kSliceNs = 20'000'000;
/// The kernel counts a process's time in ticks of 10 ms: a shorter window says nothing.
constexpr int64_t kLeastCpuWindowNs = 500'000'000;
constexpr double kLeastCpu = 0.05;

const FaultKind& KindOf(const PlannedFault& fault) {
  const FaultKind* kind = FindKind(fault.kind);
  if (kind == nullptr)
    throw ConfigError(fmt::format("plan: there is no fault kind '{}'", fault.kind));
  return *kind;
}

/// One moment of a plan at which something is switched.
struct Moment {
  int64_t at_ns;
  bool begin;
  std::size_t fault;
};

/// Ends come before begins at the same time.
std::vector<Moment> Moments(const Plan& plan) {
  std::vector<Moment> moments;
  for (std::size_t index = 0; index < plan.faults.size(); ++index) {
    const PlannedFault& fault = plan.faults[index];
    moments.push_back({.at_ns = fault.begin_ns, .begin = true, .fault = index});
    moments.push_back({.at_ns = fault.begin_ns + fault.length_ns, .begin = false, .fault = index});
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.begin < b.begin;
  });
  return moments;
}

}  // namespace

struct Injector::State {
  State(Plan the_plan, std::vector<cluster::RankProcess> the_ranks, InjectorOptions the_options)
      : plan(std::move(the_plan)),
        ranks(std::move(the_ranks)),
        options(std::move(the_options)),
        truth(options.truth_path),
        drain(options.run_dir, truth) {
    for (uint32_t slot = 0; slot < TELLER_PERTURBATIONS; ++slot) free_slots.insert(slot);
  }

  /// A fault that is on.
  struct Active {
    std::unique_ptr<Fault> fault;
    uint32_t slot;
    int64_t ramp_until_ns;  ///< of the run; 0: at its full magnitude
  };

  const cluster::RankProcess& RankOf(const PlannedFault& fault) const {
    return *std::find_if(ranks.begin(), ranks.end(),
                         [&](const auto& process) { return process.rank == fault.target.rank; });
  }
  int64_t NodeNow(const cluster::RankProcess& process) const {
    return MonotonicNs() + process.clock_offset_ns;
  }
  bool EveryRankEnded() const { return ended.size() == ranks.size(); }
  bool MustEnd() const { return stopped.load() || Interrupted() || EveryRankEnded(); }

  void NoteEndedRanks() {
    for (const auto& process : ranks) {
      if (ended.contains(process.rank) || cluster::IsAlive(process.pid, process.start_ticks))
        continue;
      ended.insert(process.rank);
      const std::string note = fmt::format("rank {} (pid {}) ended during the plan",
                                           static_cast<int32_t>(process.rank), process.pid);
      summary.notes.push_back(note);
      truth.Lost(std::nullopt, process.node, 1, note);
    }
  }

  /// Until a moment of the run; false when the plan must end first.
  bool WaitUntil(int64_t at_ns) {
    while (true) {
      NoteEndedRanks();
      truth.CheckWritten();
      if (MustEnd()) return false;
      Ramp();
      const int64_t left_ns = begin_ns + at_ns - MonotonicNs();
      if (left_ns <= 0) return true;
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kSliceNs)));
    }
  }

  /// Brings what is still growing to its size of now.
  void Ramp() {
    for (auto& [index, entry] : active) {
      if (entry.ramp_until_ns == 0) continue;
      const PlannedFault& fault = plan.faults[index];
      const double left = static_cast<double>(entry.ramp_until_ns - (MonotonicNs() - begin_ns)) /
                          static_cast<double>(fault.ramp_ns);
      entry.fault->SetShare(std::clamp(1 - left, 0.0, 1.0));
      if (left <= 0) entry.ramp_until_ns = 0;
    }
  }

  FaultContext ContextOf(const PlannedFault& fault, uint32_t slot) {
    const RankId rank = fault.target.rank;
    return {.ranks = ranks,
            .control = options.control,
            .any_rank = options.any_rank,
            .run_id = options.run_id,
            .healthy_cpu = healthy_cpu.contains(rank) ? healthy_cpu.at(rank) : 1,
            .slot = slot,
            .cluster = options.cluster,
            .truth = truth,
            .journal = *options.journal};
  }

  void Begin(std::size_t index) {
    const PlannedFault& fault = plan.faults[index];
    const cluster::RankProcess& process = RankOf(fault);
    if (ended.contains(process.rank)) return;
    TELLER_CHECK(!free_slots.empty());
    const uint32_t slot = *free_slots.begin();
    free_slots.erase(free_slots.begin());
    drain.Expect(fault);
    const FaultKind& kind = KindOf(fault);
    truth.PlanLine(fault, kind.description, process.node);
    const bool ramps = fault.ramp_ns > 0 && !fault.placebo;
    Active& entry = active[index] = {.fault = kind.make(fault, ContextOf(fault, slot)),
                                     .slot = slot,
                                     .ramp_until_ns = ramps ? fault.begin_ns + fault.ramp_ns : 0};
    ++summary.stretches;
    if (fault.placebo) ++summary.placebos;
    truth.Stretch(/*begin=*/true, fault, process.node, NodeNow(process));
    entry.fault->Apply();
    Ramp();
  }

  void End(std::size_t index) {
    const auto found = active.find(index);
    if (found == active.end()) return;
    const PlannedFault& fault = plan.faults[index];
    const cluster::RankProcess& process = RankOf(fault);
    found->second.fault->Undo();
    truth.Stretch(/*begin=*/false, fault, process.node, NodeNow(process));
    for (const Measure& measure : found->second.fault->Measures()) {
      truth.Measured(fault.plan_id, process.node, measure.name, measure.unit, measure.value);
    }
    if (found->second.fault->Acted()) acted.insert(fault.plan_id);
    free_slots.insert(found->second.slot);
    active.erase(found);
    begun.push_back(index);
  }

  void EndAll() {
    while (!active.empty()) End(active.begin()->first);
  }

  /// Hits come in after the stretch has ended, so they are summed up at the end of the run.
  void SumUp() {
    for (const std::size_t index : begun) {
      const PlannedFault& fault = plan.faults[index];
      const bool did_act = truth.actions(fault.plan_id) > 0 || acted.contains(fault.plan_id);
      truth.Measured(fault.plan_id, RankOf(fault).node, "acted", "bool", did_act ? 1 : 0);
      if (!fault.placebo && !did_act) ++summary.ineffective;
      if (!KindOf(fault).description.needs_agent) continue;
      const HitSums sums = drain.Sums(fault.plan_id);
      const std::string& node = RankOf(fault).node;
      truth.Measured(fault.plan_id, node, "hits", "count", static_cast<double>(sums.count));
      truth.Measured(fault.plan_id, node, "delay_total", "ns", static_cast<double>(sums.delay_ns));
    }
  }

  void Calibrate() {
    const cluster::RankProcess& first = ranks.front();
    const int64_t from_ns = NodeNow(first);
    const auto before = CpuNsByRank();
    WaitUntil(plan.calibration_ns);
    const int64_t to_ns = NodeNow(first);
    truth.Calibration(first.node, from_ns, to_ns);
    if (to_ns - from_ns < kLeastCpuWindowNs) return;
    for (const auto& [rank, cpu_ns] : CpuNsByRank()) {
      const double used = static_cast<double>(cpu_ns - before.at(rank));
      healthy_cpu[rank] = std::max(kLeastCpu, used / static_cast<double>(to_ns - from_ns));
    }
  }

  std::map<RankId, int64_t> CpuNsByRank() const {
    std::map<RankId, int64_t> cpu_ns;
    for (const auto& process : ranks) {
      const auto stat = cluster::ReadProcessStat(process.pid);
      cpu_ns[process.rank] = stat ? stat->cpu_ns : 0;
    }
    return cpu_ns;
  }

  void Perform() {
    for (const PlannedFault& fault : plan.faults)
      KindOf(fault).announce(fault, ContextOf(fault, 0));
    begin_ns = MonotonicNs();
    Calibrate();
    for (const Moment& moment : Moments(plan)) {
      if (!WaitUntil(moment.at_ns)) return;
      moment.begin ? Begin(moment.fault) : End(moment.fault);
    }
    summary.completed = WaitUntil(plan.duration_ns);
  }

  InjectionSummary Finish() {
    EndAll();
    drain.Finish();
    SumUp();
    summary.actions = truth.actions();
    summary.lost = drain.lost();
    truth.Footer();
    truth.CheckWritten();
    return summary;
  }

  const Plan plan;
  const std::vector<cluster::RankProcess> ranks;
  const InjectorOptions options;
  TruthWriter truth;
  HitDrain drain;
  std::set<uint32_t> free_slots;
  std::map<std::size_t, Active> active;  // by index in the plan; undone by its destructors too
  std::vector<std::size_t> begun;        // and ended again
  std::set<uint32_t> acted;              // plans measured by the stretch that did something
  std::set<RankId> ended;
  std::map<RankId, double> healthy_cpu;  // processors used in the calibration window
  std::atomic<bool> stopped = false;
  int64_t begin_ns = 0;
  InjectionSummary summary;
};

namespace {

void CheckOverlaps(const PlannedFault& fault, std::span<const PlannedFault> all) {
  for (const PlannedFault& other : all) {
    const bool later = other.begin_ns >= fault.begin_ns + fault.length_ns;
    const bool earlier = other.begin_ns + other.length_ns <= fault.begin_ns;
    if (&other == &fault || later || earlier || !Conflict(fault, other)) continue;
    throw ConfigError(fmt::format(
        "plan: stretches {} ({}) and {} ({}) overlap and both need the {}", fault.stretch,
        fault.kind, other.stretch, other.kind, KindOf(fault).description.resource));
  }
}

/// Everything that can be refused before the run begins.
void CheckPlan(const Plan& plan, std::span<const cluster::RankProcess> ranks,
               const InjectorOptions& options) {
  TELLER_CHECK(options.journal != nullptr);
  if (ranks.empty()) throw ConfigError("inject: there is no rank to inject into");
  for (const PlannedFault& fault : plan.faults) {
    const KindDescription& kind = KindOf(fault).description;
    const auto rank = static_cast<int32_t>(fault.target.rank);
    const bool found = std::any_of(ranks.begin(), ranks.end(), [&](const auto& process) {
      return process.rank == fault.target.rank;
    });
    if (!found) {
      throw ConfigError(fmt::format("plan: stretch {} ({}) wants rank {}, which does not run",
                                    fault.stretch, fault.kind, rank));
    }
    if (kind.needs_agent && options.control == nullptr) {
      throw ConfigError(
          fmt::format("plan: stretch {} ({}) needs the agent in the target; start the target with "
                      "'teller inject -- COMMAND'",
                      fault.stretch, fault.kind));
    }
    const bool has_links = options.cluster != nullptr && options.cluster->has_namespaces() &&
                           options.cluster->size() > 1;
    if (kind.needs_links && !has_links) {
      throw UnavailableError(
          fmt::format("plan: stretch {} ({}) needs two nodes with networks of their own; run as "
                      "root or allow user "
                      "namespaces, or leave the kind out of the schedule",
                      fault.stretch, fault.kind));
    }
    if (const std::string why = KindOf(fault).why_unavailable(); !why.empty()) {
      throw UnavailableError(
          fmt::format("plan: stretch {} ({}): {}; leave the kind out of the schedule",
                      fault.stretch, fault.kind, why));
    }
    if (fault.length_ns <= 0 || fault.begin_ns < 0) {
      throw ConfigError(fmt::format("plan: stretch {} has begin {} ns and length {} ns",
                                    fault.stretch, fault.begin_ns, fault.length_ns));
    }
  }
  for (const PlannedFault& fault : plan.faults) CheckOverlaps(fault, plan.faults);
}

}  // namespace

Injector::Injector(Plan plan, std::vector<cluster::RankProcess> ranks, InjectorOptions options) {
  CheckPlan(plan, ranks, options);
  state_ = std::make_unique<State>(std::move(plan), std::move(ranks), std::move(options));
  state_->truth.Header(state_->options.run_id, state_->plan.seed, state_->ranks);
}

Injector::~Injector() = default;

InjectionSummary Injector::Run() {
  try {
    state_->Perform();
  } catch (...) {
    state_->EndAll();
    throw;
  }
  return state_->Finish();
}

void Injector::Stop() { state_->stopped.store(true); }

}  // namespace teller::fault_injection
