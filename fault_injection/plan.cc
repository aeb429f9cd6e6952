#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "fault_injection/fault_kind.h"
#include "fault_injection/schedule.h"
#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::fault_injection {
namespace {

constexpr int kLevels = 5;

std::vector<std::size_t> ShuffledIndices(std::size_t count, Random& random) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  random.Shuffle(std::span(indices));
  return indices;
}

/// Deals 0..count-1 in shuffled blocks, so that any two differ in frequency by one at most.
class BlockDealer {
 public:
  BlockDealer(std::size_t count, uint64_t seed, const std::string& part)
      : count_(count), random_(seed, part) {}

  std::size_t Next() {
    if (left_.empty()) left_ = ShuffledIndices(count_, random_);
    const std::size_t dealt = left_.back();
    left_.pop_back();
    return dealt;
  }

 private:
  std::size_t count_;
  Random random_;
  std::vector<std::size_t> left_;
};

struct Cell {
  int level;
  RankId rank;
  std::size_t target;
};

/// Levels in shuffled blocks of five. Each level walks through the shuffled (rank, target)
/// combinations from a start of its own, so that over as many blocks as there are combinations
/// every cell comes once.
class CellDealer {
 public:
  CellDealer(const ScheduledKind& kind, uint64_t seed, const std::string& part)
      : kind_(kind), levels_(kLevels, seed, part + ":levels"), random_(seed, part + ":cells") {
    const std::size_t combinations = kind.ranks.size() * kind.targets.size();
    order_ = ShuffledIndices(combinations, random_);
    const std::vector<std::size_t> starts = ShuffledIndices(kLevels, random_);
    for (int level = 0; level < kLevels; ++level) {
      next_.push_back(starts[static_cast<std::size_t>(level)] % combinations);
    }
  }

  Cell Next() {
    const std::size_t level = levels_.Next();
    const std::size_t combination = order_[next_[level]++ % order_.size()];
    return {.level = static_cast<int>(level) + 1,
            .rank = kind_.ranks[combination % kind_.ranks.size()],
            .target = combination / kind_.ranks.size()};
  }

 private:
  const ScheduledKind& kind_;
  BlockDealer levels_;
  Random random_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> next_;
};

/// Deals what comes next in a campaign, runs after each other.
class Dealer {
 public:
  Dealer(const Schedule& schedule, uint64_t seed)
      : schedule_(schedule),
        kinds_(schedule.kinds.size(), seed, "kinds"),
        placebo_kinds_(schedule.kinds.size(), seed, "placebo kinds"),
        placebos_(PlaceboPeriod(schedule), seed, "placebos") {
    for (const ScheduledKind& kind : schedule.kinds) {
      // Kinds may stand twice in a schedule, with other targets, so the part is named by position
      // too.
      const std::string part = kind.kind + "#" + std::to_string(cells_.size());
      cells_.emplace_back(kind, seed, "cells:" + part);
      placebo_cells_.emplace_back(kind, seed, "placebo cells:" + part);
    }
  }

  /// The next fault, the same until Pop: kind, level, target and placebo are set.
  const PlannedFault& Peek() {
    if (!pending_) {
      pending_ = Deal();
      left_ = kind_->repeat;
    }
    return *pending_;
  }
  void Pop() {
    if (left_ > 0) --left_;
    if (left_ == 0) pending_.reset();
  }
  /// Of the fault peeked at.
  const ScheduledKind& kind() const { return *kind_; }

 private:
  PlannedFault Deal() {
    const bool placebo = schedule_.placebo_share > 0 && placebos_.Next() == 0;
    const std::size_t index = placebo ? placebo_kinds_.Next() : kinds_.Next();
    const Cell cell = placebo ? placebo_cells_[index].Next() : cells_[index].Next();
    kind_ = &schedule_.kinds[index];
    PlannedFault fault;
    fault.kind = kind_->kind;
    fault.placebo = placebo;
    fault.level = cell.level;
    fault.target = kind_->targets[cell.target];
    fault.target.rank = cell.rank;
    return fault;
  }

  static std::size_t PlaceboPeriod(const Schedule& schedule) {
    if (schedule.placebo_share <= 0) return 1;
    return static_cast<std::size_t>(std::max(1.0, std::round(1.0 / schedule.placebo_share)));
  }

  const Schedule& schedule_;
  BlockDealer kinds_, placebo_kinds_, placebos_;
  std::vector<CellDealer> cells_, placebo_cells_;
  const ScheduledKind* kind_ = nullptr;
  std::optional<PlannedFault> pending_;
  int left_ = 0;  // stretches of the pending cell
};

int64_t DrawSteps(std::pair<int64_t, int64_t> range, double step_ms, Random& random) {
  return std::llround(static_cast<double>(random.UniformInt(range.first, range.second)) * step_ms *
                      1e6);
}

/// Adds magnitude and length to a dealt fault; its begin is `begin_ns`.
void DrawSizes(PlannedFault& fault, const ScheduledKind& scheduled, const Schedule& schedule,
               int64_t begin_ns, Random& random) {
  const FaultKind* kind = FindKind(scheduled.kind);
  TELLER_CHECK(kind != nullptr);
  const auto level = static_cast<std::size_t>(fault.level);
  fault.step_us =
      random.LogUniform(scheduled.step_edges_us[level - 1], scheduled.step_edges_us[level]);
  fault.magnitude = kind->magnitude(fault.step_us, scheduled, fault.target);
  const double dilation =
      fault.placebo ? 1.0 : kind->dilation(fault.magnitude, fault.target, schedule.step_ms);
  fault.begin_ns = begin_ns;
  fault.length_ns = DrawSteps(schedule.stretch_steps, schedule.step_ms * dilation, random);
  fault.seed = static_cast<uint32_t>(random.Next());
  fault.ramp_ns = std::llround(static_cast<double>(fault.length_ns) * scheduled.ramp_share);
}

void Append(Plan& plan, int32_t stretch, PlannedFault fault) {
  fault.plan_id = static_cast<uint32_t>(plan.faults.size());
  fault.stretch = stretch;
  plan.faults.push_back(std::move(fault));
}

/// A second fault for a stretch, from its begin: the next one dealt, where it gets on with the
/// first.
std::optional<PlannedFault> DrawOverlap(const PlannedFault& first, const Schedule& schedule,
                                        Dealer& dealer, Random& random) {
  if (schedule.overlap_share <= 0 || !random.Bernoulli(schedule.overlap_share)) return {};
  PlannedFault second = dealer.Peek();
  if (second.kind == first.kind || second.placebo || first.placebo || Conflict(first, second)) {
    return {};
  }
  DrawSizes(second, dealer.kind(), schedule, first.begin_ns, random);
  second.length_ns = first.length_ns;
  dealer.Pop();
  return second;
}

Plan DealRun(const Schedule& schedule, uint64_t seed, int run, Dealer& dealer) {
  Random random(seed, "run:" + std::to_string(run));
  Plan plan{.seed = seed,
            .run = run,
            .calibration_ns = schedule.calibration_ns,
            .duration_ns = schedule.duration_ns,
            .faults = {}};
  const int64_t last_gap_ns =
      std::llround(static_cast<double>(schedule.gap_steps.first) * schedule.step_ms * 1e6);
  int64_t now_ns = schedule.calibration_ns;
  Random overlaps(seed, "overlaps of run:" + std::to_string(run));
  int32_t stretch = 0;
  // A run ends before the first fault that does not fit: the next run begins with that one.
  while (true) {
    const int64_t begin_ns = now_ns + DrawSteps(schedule.gap_steps, schedule.step_ms, random);
    PlannedFault fault = dealer.Peek();
    DrawSizes(fault, dealer.kind(), schedule, begin_ns, random);
    now_ns = fault.begin_ns + fault.length_ns;
    if (now_ns + last_gap_ns > schedule.duration_ns) return plan;
    dealer.Pop();
    auto second = DrawOverlap(fault, schedule, dealer, overlaps);
    Append(plan, stretch, std::move(fault));
    if (second) Append(plan, stretch, std::move(*second));
    ++stretch;
  }
}

}  // namespace

bool Conflict(const PlannedFault& a, const PlannedFault& b) {
  const FaultKind *kind_a = FindKind(a.kind), *kind_b = FindKind(b.kind);
  TELLER_CHECK(kind_a != nullptr && kind_b != nullptr);
  const std::string_view resource = kind_a->description.resource;
  if (resource.empty() || resource != kind_b->description.resource) return false;
  return kind_a->description.needs_links || a.target.rank == b.target.rank;
}

std::vector<Plan> MakePlans(const Schedule& schedule, uint64_t seed, int runs) {
  Dealer dealer(schedule, seed);
  std::vector<Plan> plans;
  for (int run = 0; run < runs; ++run) {
    plans.push_back(DealRun(schedule, seed, run, dealer));
    if (plans.back().faults.empty()) {
      throw ConfigError(fmt::format(
          "fault schedule: run {} has no room for a {} stretch between calibration_s {:g} and "
          "duration_s {:g}; make runs longer or stretches shorter",
          run, dealer.Peek().kind, static_cast<double>(schedule.calibration_ns) * 1e-9,
          static_cast<double>(schedule.duration_ns) * 1e-9));
    }
  }
  return plans;
}

}  // namespace teller::fault_injection
