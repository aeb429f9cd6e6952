// What a plan promises, over several seeds: balance, crossing, placebos, room (docs/protocol.md,
// section 2).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "fault_injection/schedule.h"

namespace teller::fault_injection {
namespace {

constexpr char kSchedule[] =
    "calibration_s: 4\n"
    "duration_s: 20\n"
    "step_ms: 7\n"
    "stretch_steps: [60, 90]\n"
    "gap_steps: [30, 60]\n"
    "placebo_share: 0.1\n"
    "faults:\n"
    "  - kind: collective_delay\n"
    "    targets: [{symbol: all_reduce, calls_per_step: 9}]\n"
    "  - kind: process_pause\n"
    "  - kind: operator_slowdown\n"
    "    targets: [{symbol: linear, calls_per_step: 29}, {symbol: attention, layer: device}]\n";

constexpr int kRuns = 40;

class PlanPropertyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  const Schedule schedule_ = ReadSchedule(config::Node::Parse(kSchedule, "x"), 2);
  const std::vector<Plan> plans_ = MakePlans(schedule_, GetParam(), kRuns);

  /// Faults of all runs in order, placebos or the others.
  std::vector<PlannedFault> Faults(bool placebo) const {
    std::vector<PlannedFault> faults;
    for (const Plan& plan : plans_) {
      for (const PlannedFault& fault : plan.faults) {
        if (fault.placebo == placebo) faults.push_back(fault);
      }
    }
    return faults;
  }
};

/// Largest and smallest count of a map must differ by `most` at most.
template <typename Key>
void ExpectBalanced(const std::map<Key, int>& counts, std::size_t cells, int most) {
  ASSERT_EQ(counts.size(), cells);
  const auto [low, high] =
      std::minmax_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_LE(high->second - low->second, most);
}

TEST_P(PlanPropertyTest, StretchesKeepOrderRoomAndCalibration) {
  for (const Plan& plan : plans_) {
    int64_t free_ns = plan.calibration_ns;
    for (const PlannedFault& fault : plan.faults) {
      EXPECT_GE(fault.begin_ns, free_ns + 30 * 7'000'000);
      EXPECT_GE(fault.length_ns, 60 * 7'000'000);
      free_ns = fault.begin_ns + fault.length_ns;
    }
    EXPECT_LE(free_ns, plan.duration_ns);
    EXPECT_GE(plan.faults.size(), 8u);
  }
}

TEST_P(PlanPropertyTest, KindsAndLevelsAreBalanced) {
  std::map<std::string, int> kinds;
  std::map<std::pair<std::string, int>, int> levels;
  for (const PlannedFault& fault : Faults(false)) {
    ++kinds[fault.kind];
    ++levels[{fault.kind, fault.level}];
  }
  ExpectBalanced(kinds, 3, 1);
  ExpectBalanced(levels, 15, 2);
}

TEST_P(PlanPropertyTest, RanksAndTargetsAreCrossedWithLevels) {
  std::map<std::tuple<std::string, int, int, std::string>, int> cells;
  for (const PlannedFault& fault : Faults(false)) {
    ++cells[{fault.kind, fault.level, static_cast<int>(fault.target.rank), fault.target.symbol}];
  }
  for (const std::string kind : {"collective_delay", "process_pause", "operator_slowdown"}) {
    std::map<std::tuple<std::string, int, int, std::string>, int> of_kind;
    for (const auto& [cell, count] : cells) {
      if (std::get<0>(cell) == kind) of_kind[cell] = count;
    }
    // Five levels, two ranks; operator_slowdown has two targets, the others one.
    ExpectBalanced(of_kind, kind == "operator_slowdown" ? 20 : 10, 1);
  }
}

TEST_P(PlanPropertyTest, EveryRunHasEveryKind) {
  for (const Plan& plan : plans_) {
    std::set<std::string> kinds;
    for (const PlannedFault& fault : plan.faults) {
      if (!fault.placebo) kinds.insert(fault.kind);
    }
    EXPECT_EQ(kinds.size(), 3u);
  }
}

TEST_P(PlanPropertyTest, OneInTenIsAPlaceboOfAnyKind) {
  const auto placebos = Faults(true);
  const auto all = placebos.size() + Faults(false).size();
  EXPECT_NEAR(static_cast<double>(placebos.size()), static_cast<double>(all) / 10, 1.0);
  std::map<std::string, int> kinds;
  for (const PlannedFault& fault : placebos) ++kinds[fault.kind];
  ExpectBalanced(kinds, 3, 1);
}

TEST_P(PlanPropertyTest, MagnitudesLieInTheirLevelsBin) {
  constexpr double kEdgesUs[] = {120, 300, 750, 1900, 4700, 12000};
  for (const PlannedFault& fault : Faults(false)) {
    if (fault.kind != "process_pause") continue;
    const double step_us = fault.magnitude.at("pulse_ns") / 1000;
    EXPECT_GE(step_us, kEdgesUs[fault.level - 1] - 1e-3);
    EXPECT_LE(step_us, kEdgesUs[fault.level] + 1e-3);
  }
}

TEST_P(PlanPropertyTest, OverlapsShareAStretchAndNeverAResource) {
  Schedule schedule = schedule_;
  schedule.overlap_share = 0.5;
  schedule.kinds[0].ramp_share = 0.25;
  std::size_t stretches = 0, pairs = 0;
  for (const Plan& plan : MakePlans(schedule, GetParam(), kRuns)) {
    std::map<int, std::vector<PlannedFault>> by_stretch;
    for (const PlannedFault& fault : plan.faults) by_stretch[fault.stretch].push_back(fault);
    stretches += by_stretch.size();
    for (const auto& [stretch, faults] : by_stretch) {
      ASSERT_LE(faults.size(), 2u);
      EXPECT_EQ(faults[0].ramp_ns,
                faults[0].kind == "collective_delay" ? (faults[0].length_ns + 2) / 4 : 0);
      if (faults.size() == 1) continue;
      ++pairs;
      EXPECT_NE(faults[0].kind, faults[1].kind);
      EXPECT_EQ(faults[0].begin_ns, faults[1].begin_ns);
      EXPECT_EQ(faults[0].length_ns, faults[1].length_ns);
      EXPECT_FALSE(Conflict(faults[0], faults[1]));
    }
  }
  // Half, less those whose next kind is the same or a placebo.
  EXPECT_GT(pairs, stretches / 5);
  EXPECT_LT(pairs, stretches / 2 + 10);
}

TEST_P(PlanPropertyTest, RepeatGivesOneCellSeveralTimesInARow) {
  Schedule schedule = schedule_;
  for (ScheduledKind& kind : schedule.kinds) kind.repeat = 2;
  std::vector<PlannedFault> all;
  for (const Plan& plan : MakePlans(schedule, GetParam(), kRuns)) {
    all.insert(all.end(), plan.faults.begin(), plan.faults.end());
  }
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    EXPECT_EQ(all[i].kind, all[i + 1].kind);
    EXPECT_EQ(all[i].level, all[i + 1].level);
    EXPECT_EQ(all[i].target.rank, all[i + 1].target.rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanPropertyTest, ::testing::Values(1, 2, 3, 42, 12345));

}  // namespace
}  // namespace teller::fault_injection
