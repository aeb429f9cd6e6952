#include "src/experiment/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/core/random.h"

namespace teller::experiment {
namespace {

ScoredStep Step(int run, int block, bool positive, double score) {
  ScoredStep step;
  step.run_id = "run" + std::to_string(run);
  step.block = block;
  step.label.status = positive ? dataset::LabelStatus::kPositive : dataset::LabelStatus::kNegative;
  step.label.level = positive ? 3 : 0;
  step.score = score;
  return step;
}

double Recall(const SeedResult& seed, const StepRefs& steps) {
  return RatesAt(ScoreSamples(steps), seed.ThresholdAt(.5)).true_positive;
}

TEST(EstimateTest, UnderEightRunsARangeStandsInsteadOfAnInterval) {
  // Recall at .5: run 0 finds 1 of 2, run 1 finds 2 of 2, run 2 has no positive and does not count
  // for the range.
  const SeedResult seed{.seed = 1,
                        .test = {Step(0, 0, true, .9), Step(0, 0, true, .1), Step(0, 1, false, 0),
                                 Step(1, 0, true, .9), Step(1, 0, true, .9), Step(2, 0, false, .9)},
                        .thresholds = {{.5, .5}}};
  const Estimate estimate = EstimateMetric({seed}, {}, Recall);
  EXPECT_DOUBLE_EQ(estimate.value, .75);
  EXPECT_DOUBLE_EQ(estimate.low, .5);
  EXPECT_DOUBLE_EQ(estimate.high, 1);
  EXPECT_FALSE(estimate.is_interval);
  EXPECT_EQ(estimate.runs, 3);
  EXPECT_EQ(estimate.steps, 6);
  EXPECT_EQ(estimate.positives, 4);
}

TEST(EstimateTest, WithinRunsTheMeanOfRunsStandsInPlaceOfThePooledValue) {
  // Run 0 finds 1 of 4, run 1 finds 1 of 1: pooled 2 of 5, mean of runs .625.
  const SeedResult seed{.seed = 1,
                        .test = {Step(0, 0, true, .9), Step(0, 0, true, .1), Step(0, 0, true, .1),
                                 Step(0, 0, true, .1), Step(1, 0, true, .9)},
                        .thresholds = {{.5, .5}}};
  EXPECT_DOUBLE_EQ(EstimateMetric({seed}, {}, Recall).value, .4);
  const Estimate estimate = EstimateWithinRuns({seed}, {}, Recall);
  EXPECT_DOUBLE_EQ(estimate.value, .625);
  EXPECT_DOUBLE_EQ(estimate.low, .25);
  EXPECT_DOUBLE_EQ(estimate.high, 1);
}

TEST(EstimateTest, SeedsAreAveraged) {
  SeedResult one{
      .seed = 1, .test = {Step(0, 0, true, .9), Step(0, 1, false, 0)}, .thresholds = {{.5, .5}}};
  SeedResult two{
      .seed = 2, .test = {Step(0, 0, true, .1), Step(0, 1, false, 0)}, .thresholds = {{.5, .5}}};
  const Estimate estimate = EstimateMetric({one, two}, {}, Recall);
  EXPECT_DOUBLE_EQ(estimate.value, .5);
  EXPECT_EQ(estimate.seeds, 2);
}

TEST(EstimateTest, FromEightRunsOnAnIntervalOverResampledRuns) {
  SeedResult seed{.seed = 1, .thresholds = {{.5, .5}}};
  for (int run = 0; run < 8; ++run) {
    for (int i = 0; i < 10; ++i) seed.test.push_back(Step(run, i / 5, true, i < run ? .9 : .1));
  }
  const Estimate estimate = EstimateMetric({seed}, {}, Recall);
  EXPECT_DOUBLE_EQ(estimate.value, .35);  // 0 + 1 + ... + 7 of 80
  EXPECT_TRUE(estimate.is_interval);
  // The standard error of the mean over runs is .229 / sqrt(8) = .081; resampling blocks within
  // runs widens it.
  EXPECT_GT(estimate.low, .05);
  EXPECT_LT(estimate.low, .25);
  EXPECT_GT(estimate.high, .45);
  EXPECT_LT(estimate.high, .65);
  const Estimate again = EstimateMetric({seed}, {}, Recall);
  EXPECT_EQ(again.low, estimate.low);
  EXPECT_EQ(again.high, estimate.high);
}

TEST(EstimateTest, AMethodThatSawNoPositiveInValidationNeverAlarms) {
  const auto thresholds = ChooseThresholds({Step(0, 0, false, 3)}, {.5, .01});
  EXPECT_TRUE(std::isinf(thresholds.at(.5)));
  EXPECT_TRUE(std::isinf(thresholds.at(.01)));
}

TEST(EstimateTest, UndefinedStaysUndefined) {
  const SeedResult seed{.seed = 1, .test = {Step(0, 0, false, 0)}, .thresholds = {{.5, .5}}};
  const Estimate estimate = EstimateMetric({seed}, {}, Recall);
  EXPECT_TRUE(std::isnan(estimate.value));
  EXPECT_TRUE(std::isnan(estimate.low));
}

}  // namespace
}  // namespace teller::experiment
