#include "src/experiment/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace teller::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Twelve steps with ties between and within the classes.
std::vector<Sample> TwelveSteps() {
  return {{.9, true},  {.8, true},  {.8, false}, {.7, true},  {.6, false}, {.55, true},
          {.5, false}, {.4, false}, {.3, true},  {.3, false}, {.2, false}, {.1, false}};
}

TEST(MetricsTest, RatesCountScoresThatReachTheThreshold) {
  const Rates rates = RatesAt(TwelveSteps(), .55);
  EXPECT_DOUBLE_EQ(rates.true_positive, 4.0 / 5);   // .9 .8 .7 .55 of five positives
  EXPECT_DOUBLE_EQ(rates.false_positive, 2.0 / 7);  // .8 .6 of seven negatives
}

TEST(MetricsTest, PriorsWeightTheTwoRates) {
  // The published rates at prior .01: recall .9, false positives .05. Of 1000 steps 9 hits and 49.5
  // false alarms.
  const BinaryScores scores = ScoresAtPrior({.9, .05}, .01);
  EXPECT_NEAR(scores.precision, 0.153846, 1e-6);  // 9 / 58.5
  EXPECT_NEAR(scores.f1, 0.262774, 1e-6);         // 2 * 9 / (2 * 9 + 1 + 49.5)
  EXPECT_NEAR(scores.accuracy, 0.9495, 1e-12);    // .01 * .9 + .99 * .95
  EXPECT_DOUBLE_EQ(scores.recall, .9);
  EXPECT_DOUBLE_EQ(ScoresAtPrior({0, 0}, .5).precision, 0);
  EXPECT_DOUBLE_EQ(ScoresAtPrior({0, 0}, .5).f1, 0);
}

TEST(MetricsTest, AveragePrecisionAgreesWithScikitLearn) {
  // sklearn.metrics.average_precision_score 1.8 on the same twelve steps, sample_weight = prior / P
  // or (1 - prior) / N.
  EXPECT_NEAR(AveragePrecision(TwelveSteps(), 5.0 / 12), 0.7166666666666666, 1e-12);
  EXPECT_NEAR(AveragePrecision(TwelveSteps(), .5), 0.7729419703103915, 1e-12);
  EXPECT_NEAR(AveragePrecision(TwelveSteps(), .43), 0.7262274658346473, 1e-12);
  EXPECT_NEAR(AveragePrecision(TwelveSteps(), .1), 0.3854746947967287, 1e-12);
  EXPECT_NEAR(AveragePrecision(TwelveSteps(), .01), 0.22193034414177712, 1e-12);
}

TEST(MetricsTest, AlwaysTheSameScoreHasThePriorAsAveragePrecision) {
  const std::vector<Sample> same = {{1, true}, {1, false}, {1, false}, {1, false}};
  EXPECT_DOUBLE_EQ(AveragePrecision(same, .43), .43);
  EXPECT_DOUBLE_EQ(RocAuc(same), .5);
}

TEST(MetricsTest, RocAucAgreesWithScikitLearn) {
  EXPECT_NEAR(RocAuc(TwelveSteps()), 0.7714285714285715, 1e-12);
}

TEST(MetricsTest, UndefinedWithoutBothClasses) {
  const std::vector<Sample> positives = {{.5, true}};
  EXPECT_TRUE(std::isnan(AveragePrecision(positives, .5)));
  EXPECT_TRUE(std::isnan(RocAuc(positives)));
  EXPECT_TRUE(std::isnan(ChooseThreshold(positives, .5)));
  EXPECT_TRUE(std::isnan(AveragePrecision({}, .5)));
  EXPECT_TRUE(std::isnan(NaturalPrior({})));
  EXPECT_TRUE(std::isnan(RatesAt(positives, 0).false_positive));
}

TEST(MetricsTest, ScoresThatAreNotNumbersComeLast) {
  const std::vector<Sample> samples = {{kNaN, false}, {.1, true}};
  EXPECT_DOUBLE_EQ(AveragePrecision(samples, .5), 1);
  EXPECT_DOUBLE_EQ(RatesAt(samples, 0).false_positive, 0);
}

TEST(MetricsTest, TheThresholdDependsOnThePrior) {
  // Scores 4 > 3 > 2 > 1: positive, negative, positive, negative.
  const std::vector<Sample> samples = {{4, true}, {3, false}, {2, true}, {1, false}};
  // Prior .5: at 4 F1 = 2*.25/(.25+.25+.25)=.667; at 2 precision .5/.75, recall 1: F1 .8. Prior .1:
  // at 4 recall .5, no false alarm: .667; at 2 precision .1/(.1+.45) = .182, F1 .308.
  EXPECT_DOUBLE_EQ(ChooseThreshold(samples, .5), 2);
  EXPECT_DOUBLE_EQ(ChooseThreshold(samples, .1), 4);
}

TEST(MetricsTest, CalibrationErrorIsTheMeanGapOfEqualMassBins) {
  // Two bins of two steps each at the natural prior .5: |(.9 - 1 + .7 - 0) / 4| + |(.3 - 1 + .1 -
  // 0) / 4| = .15 + .15.
  const std::vector<Sample> samples = {{.9, true}, {.7, false}, {.3, true}, {.1, false}};
  EXPECT_NEAR(ExpectedCalibrationError(samples, .5, 2), .30, 1e-12);
  // One bin: the mean probability .5 equals the share of positives.
  EXPECT_NEAR(ExpectedCalibrationError(samples, .5, 1), 0, 1e-12);
  // Brier: (.01 + .49 + .49 + .01) / 4.
  EXPECT_NEAR(BrierScore(samples, .5), .25, 1e-12);
}

TEST(MetricsTest, ProbabilitiesAreShiftedToThePriorTheyAreJudgedAt) {
  // Calibrated at prior .5 a constant .5 says nothing; at prior .01 it must read .01, which is
  // again calibrated.
  const std::vector<Sample> samples = {{.5, true}, {.5, false}};
  EXPECT_NEAR(ExpectedCalibrationError(samples, .01), 0, 1e-12);
  EXPECT_NEAR(BrierScore(samples, .01), .01 * .99, 1e-12);
}

TEST(MetricsTest, CalibrationIsBlankWithoutProbabilities) {
  EXPECT_TRUE(
      std::isnan(ExpectedCalibrationError(std::vector<Sample>{{kNaN, true}, {kNaN, false}}, .5)));
}

}  // namespace
}  // namespace teller::experiment
