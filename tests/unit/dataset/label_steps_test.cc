#include "src/dataset/label_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace teller::dataset {
namespace {

using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr int64_t kUs = 1'000, kMs = 1'000'000;
constexpr int kSteps = 120, kCalibrationSteps = 20;

// Steps of 5 ms every 6 ms on two ranks, decode, batch 1; each rank has one all_reduce (layer comm)
// from 1 ms to 2 ms. Calibration: the first 20 steps. So the threshold is max(50 us, 2 % of 5 ms =
// 100 us) = 100 us.
class LabelStepsTest : public testing::Test {
 protected:
  LabelStepsTest() {
    run_.symbols = StringInterner({"execute", "all_reduce"});
    for (int i = 0; i < kSteps; ++i) {
      StepForest step{.engine_step = i,
                      .begin_ns = Begin(i),
                      .end_ns = Begin(i) + 5 * kMs,
                      .phase = reconstruct::Phase::kDecode,
                      .batch_size = 1};
      step.ranks = {RankId{0}, RankId{1}};
      step.rank_begin_ns = {step.begin_ns, step.begin_ns};
      step.rank_end_ns = {step.end_ns, step.end_ns};
      step.tracks = {{RankId{0}, 0, false}, {RankId{1}, 0, false}};
      for (uint16_t r = 0; r < 2; ++r) {
        const auto root = static_cast<int32_t>(step.nodes.size());
        step.nodes.push_back({.symbol = SymbolId{0}, .track = r, .duration_ns = 5 * kMs});
        step.nodes.push_back({.symbol = SymbolId{1},
                              .track = r,
                              .layer = trace::Layer::kComm,
                              .parent = NodeId{root},
                              .depth = 1,
                              .begin_ns = 1 * kMs,
                              .duration_ns = 1 * kMs});
      }
      run_.steps.push_back(step);
    }
    truth_.run_id = "r";
    truth_.calibration = {{"node0", Begin(0), Begin(kCalibrationSteps) - 1}};
  }

  static int64_t Begin(int step) { return 1'000 * kMs + step * 6 * kMs; }

  // A stretch over steps [first, last), its edges between steps, on node1.
  void AddStretch(int plan_id, int first, int last, bool placebo = false,
                  const std::string& symbol = "gloo:all_reduce") {
    truth_.plans.push_back({.plan_id = plan_id,
                            .stretch = plan_id,
                            .kind = "collective_delay",
                            .family = "communication",
                            .view = View::kHorizontal,
                            .placebo = placebo,
                            .level = 3,
                            .culprit_rank = RankId{1},
                            .culprit_layer = symbol.empty() ? "" : "comm",
                            .culprit_symbol = symbol});
    truth_.edges.push_back({plan_id, true, "node1", Begin(first) - kMs / 2});
    truth_.edges.push_back({plan_id, false, "node1", Begin(last) - kMs / 2});
  }
  void AddAction(int plan_id, int step, int64_t after_begin_ns, int64_t length_ns,
                 ActionPlace place = ActionPlace::kInside, RankId rank = RankId{1}) {
    truth_.actions.push_back({plan_id, "node1", rank, Begin(step) + after_begin_ns,
                              Begin(step) + after_begin_ns + length_ns, place});
  }
  void SlowDown(int step, int64_t more_ns) {
    run_.steps[static_cast<std::size_t>(step)].end_ns += more_ns;
  }

  StepLabel LabelOf(int step) {
    return LabelSteps(run_, truth_, clocks_, stats_)[static_cast<std::size_t>(step)];
  }

  reconstruct::RunForest run_;
  Truth truth_;
  NodeClocks clocks_{{"node0", {}}, {"node1", {}}};
  LabelStats stats_;
};

TEST_F(LabelStepsTest, WithoutStretchesAllStepsAreNegativeAndCalibrationIsMarked) {
  EXPECT_EQ(LabelOf(19).reasons, kReasonCalibration);
  EXPECT_EQ(LabelOf(20).reasons, 0u);
  EXPECT_EQ(LabelOf(20).status, LabelStatus::kNegative);
  EXPECT_EQ(LabelOf(20).recorded_ns, (std::vector<int64_t>{0, 0}));
}

TEST_F(LabelStepsTest, PositiveFromTheThresholdOnGreyBelow) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 1 * kMs, 99 * kUs);
  AddAction(0, 32, 1 * kMs, 100 * kUs);
  AddAction(0, 33, 1 * kMs, 60 * kUs);  // two short ones add up
  AddAction(0, 33, 2 * kMs, 60 * kUs);
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kGrey);
  EXPECT_EQ(LabelOf(31).reasons, kReasonBelow);
  const StepLabel positive = LabelOf(32);
  EXPECT_EQ(positive.status, LabelStatus::kPositive);
  EXPECT_EQ(positive.kind, "collective_delay");
  EXPECT_EQ(positive.view, View::kHorizontal);
  EXPECT_EQ(positive.level, 3);
  EXPECT_EQ(positive.culprit_rank, RankId{1});
  EXPECT_EQ(positive.culprit_symbol, "all_reduce");  // normalised
  EXPECT_EQ(positive.recorded_ns, (std::vector<int64_t>{0, 100 * kUs}));
  EXPECT_EQ(positive.hit_nodes, (std::vector<NodeId>{NodeId{3}}));
  EXPECT_EQ(LabelOf(33).status, LabelStatus::kPositive);
}

TEST_F(LabelStepsTest, TheFloorHoldsForShortSteps) {
  for (StepForest& step : run_.steps)
    step.end_ns = step.rank_end_ns[0] = step.rank_end_ns[1] = step.begin_ns + kMs;
  AddStretch(0, 30, 50);
  AddAction(0, 31, 0, 49 * kUs);  // 2 % of 1 ms is 20 us
  AddAction(0, 32, 0, 50 * kUs);
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kGrey);
  EXPECT_EQ(LabelOf(32).status, LabelStatus::kPositive);
}

TEST_F(LabelStepsTest, OnlyTheTimeInsideTheStepOfItsRankCounts) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 4900 * kUs, 300 * kUs);  // 100 us in step 31, 200 us in the gap after it
  AddAction(0, 33, 5200 * kUs, 300 * kUs);  // in the gap alone
  EXPECT_EQ(LabelOf(31).recorded_ns[1], 100 * kUs);
  EXPECT_EQ(LabelOf(33).status, LabelStatus::kNegative);
  stats_.clear();
  LabelOf(33);
  EXPECT_EQ(stats_.at("actions_outside_steps"), 1);
}

TEST_F(LabelStepsTest, StepsInAStretchWithoutActionAreNegativeWithReason) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 1 * kMs, 500 * kUs);
  EXPECT_EQ(LabelOf(32).status, LabelStatus::kNegative);
  EXPECT_EQ(LabelOf(32).reasons, kReasonNoAction);
  EXPECT_EQ(LabelOf(32).stretch, 0);
  EXPECT_EQ(LabelOf(32).kind, "");
}

TEST_F(LabelStepsTest, AStretchThatNeverActedIsIneffective) {
  AddStretch(0, 30, 50);
  EXPECT_EQ(LabelOf(35).reasons, kReasonNoAction | kReasonIneffective);
  EXPECT_EQ(LabelOf(35).status, LabelStatus::kNegative);
}

TEST_F(LabelStepsTest, KindsMeasuredByTheStretchLabelNoStepPositive) {
  AddStretch(0, 30, 50);
  truth_.plans[0].by_stretch = true;
  EXPECT_EQ(LabelOf(31).reasons, kReasonByStretch | kReasonIneffective);
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kNegative);
  truth_.plans[0].acted = true;
  AddAction(0, 31, 1 * kMs, 500 * kUs);  // a tokenizer's stall, beside the steps
  EXPECT_EQ(LabelOf(31).reasons, kReasonByStretch);
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kGrey);
  EXPECT_EQ(LabelOf(31).stretch, 0);
  EXPECT_EQ(LabelOf(31).kind, "");
}

TEST_F(LabelStepsTest, AStepThatHoldsAnEdgeIsGreyEvenAboveTheThreshold) {
  AddStretch(0, 30, 50);
  truth_.edges[0].time_ns = Begin(30) + kMs;  // inside step 30
  AddAction(0, 30, 2 * kMs, 2 * kMs);
  EXPECT_EQ(LabelOf(30).status, LabelStatus::kGrey);
  EXPECT_EQ(LabelOf(30).reasons, kReasonEdge);
}

TEST_F(LabelStepsTest, PlacebosAreNegativeWhateverTheirHitsSay) {
  AddStretch(0, 30, 50, /*placebo=*/true);
  AddAction(0, 31, 1 * kMs, 500 * kUs);
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kNegative);
  EXPECT_EQ(LabelOf(31).reasons, kReasonPlacebo);
  EXPECT_GE(stats_.at("placebo_actions_ignored"), 1);
}

TEST_F(LabelStepsTest, RecoveryEndsAtThreeHealthyStepsInARow) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 1 * kMs, 500 * kUs);
  SlowDown(50, 5 * kMs);
  SlowDown(52, 5 * kMs);  // 51 alone is healthy: not yet
  for (const int step : {50, 51, 52}) {
    EXPECT_EQ(LabelOf(step).status, LabelStatus::kGrey) << step;
    EXPECT_EQ(LabelOf(step).reasons, kReasonRecovery) << step;
  }
  EXPECT_EQ(LabelOf(53).status, LabelStatus::kNegative);
  EXPECT_EQ(LabelOf(53).reasons, 0u);
}

TEST_F(LabelStepsTest, RecoveryIsCutAfterHalfASecond) {
  AddStretch(0, 30, 32);
  AddAction(0, 31, 1 * kMs, 500 * kUs);
  for (int step = 32; step < kSteps; ++step) SlowDown(step, 4 * kMs);
  // 83 steps of 6 ms are 498 ms after the stretch's end (0.5 ms before step 32).
  EXPECT_EQ(LabelOf(32 + 83).reasons, kReasonRecovery);
  EXPECT_EQ(LabelOf(32 + 84).reasons, 0u);
}

TEST_F(LabelStepsTest, NoRecoveryAfterAPlacebo) {
  AddStretch(0, 30, 50, /*placebo=*/true);
  SlowDown(50, 5 * kMs);
  EXPECT_EQ(LabelOf(50).reasons, 0u);
}

// Node 1's clock is 40 s behind the base.
TEST_F(LabelStepsTest, TimesGoThroughTheNodesClock) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 1 * kMs, 500 * kUs);
  for (TruthEdge& edge : truth_.edges) edge.time_ns -= 40'000 * kMs;
  for (TruthAction& action : truth_.actions) {
    action.begin_ns -= 40'000 * kMs;
    action.end_ns -= 40'000 * kMs;
  }
  clocks_["node1"].offset_ns = 40'000 * kMs;
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kPositive);
  clocks_.erase("node1");
  EXPECT_EQ(LabelOf(31).status, LabelStatus::kNegative);
  EXPECT_EQ(stats_.at("truth_times_of_unknown_nodes"), 4);  // two edges, two ends of the action
}

TEST_F(LabelStepsTest, ADelayBeforeAnOperatorHitsTheNextInstance) {
  AddStretch(0, 30, 50);
  AddAction(0, 31, 700 * kUs, 300 * kUs, ActionPlace::kBefore);
  EXPECT_EQ(LabelOf(31).hit_nodes, (std::vector<NodeId>{NodeId{3}}));
}

TEST_F(LabelStepsTest, AKindWithoutSymbolHitsNoNode) {
  AddStretch(0, 30, 50, false, "");
  AddAction(0, 31, 1 * kMs, 500 * kUs, ActionPlace::kInterval);
  EXPECT_TRUE(LabelOf(31).hit_nodes.empty());
  EXPECT_EQ(LabelOf(31).culprit_symbol, "");
}

TEST_F(LabelStepsTest, OfTwoFaultsTheLargerNamesTheStep) {
  AddStretch(0, 30, 50);
  AddStretch(1, 30, 50);
  truth_.plans[1].kind = "process_pause";
  AddAction(0, 31, 1 * kMs, 200 * kUs);
  AddAction(1, 31, 2 * kMs, 900 * kUs);
  EXPECT_EQ(LabelOf(31).kind, "process_pause");
  EXPECT_EQ(LabelOf(31).recorded_ns[1], 1100 * kUs);
}

TEST_F(LabelStepsTest, AStretchThatNeverEndedLastsToTheEnd) {
  AddStretch(0, 30, 50);
  truth_.edges.pop_back();
  EXPECT_EQ(LabelOf(kSteps - 1).stretch, 0);
}

}  // namespace
}  // namespace teller::dataset
