#include "src/experiment/baselines.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/experiment/logistic_regression.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;

/// A run of two operators on two ranks: 40 calibration steps, then alternately healthy and slowed
/// at (1, gemm).
class BaselinesTest : public ::testing::Test {
 protected:
  BaselineRun MakeRun(const std::string& id, double speed) {
    BaselineRun run{.run_id = id, .ranks = {RankId{0}, RankId{1}}};
    for (int i = 0; i < 80; ++i) {
      const bool slow = i >= 40 && i % 2 == 1;
      const double noise = 1 + .01 * ((i * 7) % 5 - 2);
      BaselineStep step{
          .engine_step = i, .position = i / 80.0, .phase = 2, .batch_size = 4, .bucket = 2};
      step.duration_ns = static_cast<int64_t>(1e6 * speed * noise * (slow ? 2 : 1));
      for (const int rank : {0, 1}) {
        Add(step, rank, "gemm", 1e5 * speed * noise * (slow && rank == 1 ? 3 : 1));
        Add(step, rank, "all_reduce", 2e5 * speed * noise);
      }
      dataset::StepLabel label;
      if (i < 40) label.reasons = dataset::kReasonCalibration;
      if (slow) {
        label = {.status = LabelStatus::kPositive,
                 .stretch = 0,
                 .kind = "slow",
                 .level = 3,
                 .culprit_rank = RankId{1},
                 .culprit_symbol = "gemm"};
      }
      run.steps.push_back(std::move(step));
      run.labels.push_back(label);
    }
    return run;
  }
  void Add(BaselineStep& step, int rank, const char* symbol, double ns) {
    step.operators.emplace_back(operators_.Index(RankId{rank}, symbol),
                                static_cast<float>(std::log(ns + 1e3)));
  }
  BaselineInputs Inputs() {
    return {std::span(runs_).first(1), std::span(runs_).subspan(1), &operators_};
  }

  OperatorTable operators_;
  // The second run's machine is 1.5 times slower: only its calibration window can tell.
  std::vector<BaselineRun> runs_ = {MakeRun("train", 1), MakeRun("test", 1.5)};
};

/// Scores of healthy and of slowed steps behind the calibration window.
std::pair<double, double> WorstHealthyAndLeastSlow(const dataset::PredictionsFile& file) {
  double healthy = -1e9, slow = 1e9;
  for (const auto& step : file.steps) {
    if (step.engine_step < 40) continue;
    double& bound = step.engine_step % 2 == 1 ? slow : healthy;
    bound = step.engine_step % 2 == 1 ? std::min<double>(bound, step.score)
                                      : std::max<double>(bound, step.score);
  }
  return {healthy, slow};
}

TEST_F(BaselinesTest, OperatorMadFindsTheSlowOperatorOnAnotherMachine) {
  const auto file = OperatorMad(Inputs());
  ASSERT_EQ(file.steps.size(), 80u);
  const auto [healthy, slow] = WorstHealthyAndLeastSlow(file);
  EXPECT_LT(healthy, slow);
  const auto& guess = file.steps[41].operators.front();
  EXPECT_EQ(guess.symbol, "gemm");
  EXPECT_EQ(guess.rank, RankId{1});
  EXPECT_EQ(file.steps[41].rank_probability, (std::vector<float>{0, 1}));
  EXPECT_TRUE(std::isnan(file.steps[41].probability));
}

TEST_F(BaselinesTest, StepTimeIsHeldAgainstTheRunsOwnMedian) {
  const auto file = StepTimeRatio(Inputs());
  const auto [healthy, slow] = WorstHealthyAndLeastSlow(file);
  EXPECT_NEAR(healthy, 0, .05);
  EXPECT_NEAR(slow, std::log(2), .05);
  EXPECT_TRUE(file.steps[41].operators.empty());
}

TEST_F(BaselinesTest, InjectionPriorNamesTheCommonestCulprit) {
  const auto file = InjectionPrior(Inputs());
  ASSERT_EQ(file.steps[0].operators.size(), 1u);
  EXPECT_EQ(file.steps[0].operators[0].symbol, "gemm");
  EXPECT_EQ(file.steps[0].operators[0].rank, RankId{1});
}

TEST_F(BaselinesTest, DummiesKnowNothing) {
  for (const auto& step : AlwaysPositive(Inputs()).steps) EXPECT_EQ(step.score, 1);
  const auto once = Stratified(Inputs(), 5), again = Stratified(Inputs(), 5);
  int flagged = 0;
  for (std::size_t i = 0; i < once.steps.size(); ++i) {
    EXPECT_EQ(once.steps[i].score, again.steps[i].score);
    flagged += once.steps[i].score > 0 ? 1 : 0;
  }
  EXPECT_GT(flagged, 20);  // half of the scored training steps are positive
  EXPECT_LT(flagged, 60);
}

TEST_F(BaselinesTest, ScheduleCannotTellAlternatingSteps) {
  // Steps alternate: position, phase and batch size say nothing, so all scores lie close together.
  const auto [healthy, slow] = WorstHealthyAndLeastSlow(ScheduleOnly(Inputs()));
  EXPECT_NEAR(healthy, slow, .3);
}

TEST_F(BaselinesTest, ExtractsOwnTimesByRankAndSymbol) {
  dataset::StepsFile steps;
  steps.run.run_id = "a";
  const auto gemm = SymbolId{static_cast<uint32_t>(steps.run.symbols.Intern("gemm"))};
  reconstruct::StepForest forest;
  forest.engine_step = 3;
  forest.begin_ns = 100;
  forest.end_ns = 5100;
  forest.batch_size = 3;
  forest.ranks = {RankId{0}};
  forest.tracks = {{RankId{0}, 0, false}, {RankId{0}, 1, true}};
  forest.nodes = {{.symbol = gemm, .track = 0, .host_self_ns = 4000},
                  {.symbol = gemm, .track = 1, .device_busy_ns = 2000}};
  steps.run.steps = {forest};
  steps.labels.resize(1);
  OperatorTable operators;
  const BaselineRun run = ExtractRun(steps, operators);
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.steps[0].duration_ns, 5000);
  EXPECT_EQ(run.steps[0].bucket, 2);
  ASSERT_EQ(run.steps[0].operators.size(), 1u);
  EXPECT_NEAR(run.steps[0].operators[0].second, 8.85367, 1e-4);  // ln(4000 + 2000 + 1000)
}

TEST_F(BaselinesTest, RefusesTokensOfAnotherRun) {
  EXPECT_THROW(AddShapes({.run_id = "other"}, runs_[0]), DataError);
}

TEST(LogisticRegressionTest, AgreesWithTheClosedFormOfOneBinaryFeature) {
  // P(positive | 1) = 3/4, P(positive | 0) = 1/4, classes balanced: log-odds +-ln 3, slightly
  // shrunk by the ridge.
  const std::vector<std::vector<double>> rows = {{1}, {1}, {1}, {1}, {0}, {0}, {0}, {0}};
  const std::vector<bool> positive = {true, true, true, false, true, false, false, false};
  LogisticRegression regression;
  regression.Fit(rows, positive);
  EXPECT_NEAR(regression.Score(std::vector<double>{1}), std::log(3), .02);
  EXPECT_NEAR(regression.Score(std::vector<double>{0}), -std::log(3), .02);
}

TEST(LogisticRegressionTest, SurvivesConstantFeaturesSeparableDataAndOneClass) {
  LogisticRegression regression;
  regression.Fit({{1, 5}, {2, 5}, {3, 5}, {4, 5}}, {false, false, true, true});
  EXPECT_GT(regression.Score(std::vector<double>{4, 5}),
            regression.Score(std::vector<double>{1, 5}));
  EXPECT_TRUE(std::isfinite(regression.Score(std::vector<double>{4, 5})));
  regression.Fit({{1}, {2}}, {true, true});
  EXPECT_EQ(regression.Score(std::vector<double>{9}), 0);
}

}  // namespace
}  // namespace teller::experiment
