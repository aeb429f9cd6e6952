#include "src/experiment/fault_validation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {

constexpr int64_t kMs = 1'000'000;

/// One run in which 200 healthy steps of 4.9, 5.0 and 5.1 ms go before and between stretches; a
/// faulty step is longer by what is recorded in it on rank 1.
class FaultValidationTest : public ::testing::Test {
 protected:
  FaultValidationTest() {
    truth_.nodes = {{.name = "node0", .rank = RankId{0}}, {.name = "node1", .rank = RankId{1}}};
    steps_.engine = "reference";
    AddHealthy(200);
  }

  dataset::StepLabel& AddStep(int64_t recorded_ns, int stretch) {
    reconstruct::StepForest step;
    step.ranks = {RankId{0}, RankId{1}};
    step.begin_ns = now_ns_;
    step.end_ns = now_ns_ + 5 * kMs + (static_cast<int>(steps_.labels.size()) % 3 - 1) * kMs / 10 +
                  recorded_ns;
    now_ns_ = step.end_ns + kMs / 10;
    steps_.run.steps.push_back(step);
    steps_.labels.push_back({.status = recorded_ns > 0 ? dataset::LabelStatus::kPositive
                                                       : dataset::LabelStatus::kNegative,
                             .stretch = stretch,
                             .plan_id = stretch,
                             .recorded_ns = {0, recorded_ns}});
    return steps_.labels.back();
  }
  void AddHealthy(int count) {
    for (int i = 0; i < count; ++i) AddStep(0, -1);
  }
  /// 30 steps, two recovery steps, healthy time; actions are twice as long as planned.
  void AddStretch(int64_t recorded_ns, bool placebo = false) {
    const int id = static_cast<int>(truth_.plans.size());
    truth_.plans.push_back({.plan_id = id,
                            .stretch = id,
                            .kind = "collective_delay",
                            .placebo = placebo,
                            .level = 5,
                            .culprit_rank = RankId{1},
                            .step_us = static_cast<double>(recorded_ns) / 2000,
                            .magnitude = {{"delay_ns", static_cast<double>(recorded_ns) / 2}},
                            .acted = !placebo});
    truth_.edges.push_back({id, true, "node1", now_ns_});
    for (int i = 0; i < 30; ++i) {
      AddStep(recorded_ns, id);
      if (!placebo) truth_.actions.push_back({id, "node1", RankId{1}, 0, recorded_ns});
    }
    truth_.edges.push_back({id, false, "node1", now_ns_});
    for (int i = 0; i < 2; ++i) {
      dataset::StepLabel& label = AddStep(0, id);
      label.status = dataset::LabelStatus::kGrey;
      label.reasons = dataset::kReasonRecovery;
    }
    AddHealthy(40);
  }

  std::vector<StretchEffect> Measure() { return MeasureStretches(steps_, truth_, requests_); }

  dataset::StepsFile steps_;
  dataset::Truth truth_;
  std::vector<LoadRequest> requests_;
  int64_t now_ns_ = 1000 * kMs;
};

TEST_F(FaultValidationTest, AStretchIsMeasuredAgainstItsRunsHealthySteps) {
  const int64_t from_ns = now_ns_;
  AddStretch(5 * kMs);
  requests_ = {{.first_token_ns = from_ns - 800 * kMs, .end_ns = from_ns - 1, .tpot_ns = 5 * kMs},
               {.first_token_ns = from_ns, .end_ns = from_ns + 200 * kMs, .tpot_ns = 15 * kMs}};
  const auto effects = Measure();
  ASSERT_EQ(effects.size(), 1u);
  const StretchEffect& effect = effects[0];
  EXPECT_NEAR(effect.step_ratio, 2, 0.05);
  EXPECT_NEAR(effect.mean_ratio, 2, 0.05);
  EXPECT_TRUE(effect.visible);
  EXPECT_DOUBLE_EQ(effect.size_ratio, 2);
  EXPECT_DOUBLE_EQ(effect.planned_us, 2500);
  EXPECT_DOUBLE_EQ(effect.tpot_ratio, 3);
  EXPECT_EQ(effect.positive, 30);
  EXPECT_EQ(effect.grey, 2);
  EXPECT_NEAR(effect.recovery_ms, 10.1, 0.3);  // two steps of 5 ms and the gap between them
  EXPECT_EQ(effect.recorded_us.size(), 30u);
  EXPECT_EQ(effect.elsewhere, 0);
}

TEST_F(FaultValidationTest, PlacebosAreNotVisibleAndOverlapsAreLeftOut) {
  AddStretch(0, /*placebo=*/true);
  AddStretch(2 * kMs);
  truth_.plans.push_back(truth_.plans.back());
  truth_.plans.back().plan_id = 7;  // a second fault in the same stretch
  const auto effects = Measure();
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_TRUE(effects[0].placebo);
  EXPECT_FALSE(effects[0].visible);
  EXPECT_FALSE(effects[0].acted);
}

const Cell* Find(const std::vector<Cell>& cells, const std::string& table,
                 const std::string& metric, const std::string& check = "") {
  for (const Cell& cell : cells) {
    if (cell.table != table || cell.metric != metric) continue;
    if (check.empty() || cell.row.value("check", "") == check) return &cell;
  }
  return nullptr;
}

TEST_F(FaultValidationTest, SlopeOfExtraOnRecordedTimeIsOneWhereAllOfItCostsTheStep) {
  for (const int64_t recorded_ns : {3 * kMs, 5 * kMs, 4 * kMs, 7 * kMs, 6 * kMs})
    AddStretch(recorded_ns);
  const auto cells = FaultCells(Measure());
  const Cell* slope = Find(cells, "F1", "slope");
  ASSERT_NE(slope, nullptr);
  EXPECT_NEAR(*slope->value, 1, 0.02);
  EXPECT_LE(*slope->low, 1.02);
  EXPECT_GE(*slope->high, 0.98);
  EXPECT_EQ(*Find(cells, "F1", "stretches")->value, 5);
  EXPECT_EQ(*Find(cells, "F1", "recorded_us")->value, 5000);
  EXPECT_EQ(*Find(cells, "F3", "holds", "strongest level acted")->value, 1);
  EXPECT_EQ(*Find(cells, "F3", "holds", "slope of extra on recorded time")->value, 1);
  EXPECT_EQ(Find(cells, "F2", "stretches"), nullptr);
}

TEST_F(FaultValidationTest, AStrongestLevelThatDidNotActFailsItsCheck) {
  AddStretch(3 * kMs);
  AddStretch(4 * kMs);
  truth_.plans[1].acted = false;
  const auto cells = FaultCells(Measure());
  EXPECT_EQ(*Find(cells, "F1", "acted")->value, 0.5);
  EXPECT_EQ(*Find(cells, "F3", "holds", "strongest level acted")->value, 0);
}

TEST_F(FaultValidationTest, ConfigurationFaultsAreComparedWithRestarts) {
  const auto healthy = AsWholeRun(steps_, truth_, requests_);
  ASSERT_TRUE(healthy);
  EXPECT_EQ(healthy->kind, "");
  truth_.plans = {{.plan_id = 0, .stretch = 0, .kind = "batch_cap", .level = 4}};
  for (auto& step : steps_.run.steps)
    step.end_ns = step.begin_ns + 2 * (step.end_ns - step.begin_ns);
  requests_ = {{.begin_ns = 0, .first_token_ns = 10, .end_ns = 100 * kMs, .tpot_ns = 8 * kMs}};
  const auto capped = AsWholeRun(steps_, truth_, requests_);
  ASSERT_TRUE(capped);
  EXPECT_TRUE(Measure().empty());  // not a stretch of its own run
  const std::vector<WholeRun> runs = {*healthy, *capped, *healthy};
  const auto cells = ConfigurationCells(runs);
  EXPECT_EQ(*Find(cells, "F4", "restarts")->value, 2);
  EXPECT_DOUBLE_EQ(*Find(cells, "F4", "step_ratio")->value, 2);
  EXPECT_FALSE(Find(cells, "F4", "tpot_ratio")->value);  // the healthy ones had no request
  truth_.plans[0].kind = "collective_delay";
  EXPECT_FALSE(AsWholeRun(steps_, truth_, requests_));
}

TEST(LoadRequestsTest, KeepTheirTimesAndTheDamagedOneIsNamed) {
  const testing_support::TemporaryFolder folder;
  const auto path = folder / "load.jsonl";
  std::ofstream(path) << R"({"begin_ns":1000,"ttft_ns":20,"end_ns":1500,"tpot_ns":40})"
                      << "\n"
                      << R"({"begin_ns":2000,"ttft_ns":20,"end_ns":2020,"tpot_ns":null})"
                      << "\n"
                      << R"({"summary":{}})"
                      << "\n";
  EXPECT_THROW(ReadLoadRequests(path), DataError);  // a null where a time belongs
  std::ofstream(path) << R"({"begin_ns":1000,"ttft_ns":20,"end_ns":1500,"tpot_ns":40})"
                      << "\n"
                      << R"({"begin_ns":2000,"ttft_ns":20,"end_ns":2020})"
                      << "\n"
                      << R"({"summary":{}})"
                      << "\n";
  const auto requests = ReadLoadRequests(path);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].begin_ns, 1000);
  EXPECT_EQ(requests[0].first_token_ns, 1020);
  EXPECT_EQ(requests[0].end_ns, 1500);
}

}  // namespace
}  // namespace teller::experiment
