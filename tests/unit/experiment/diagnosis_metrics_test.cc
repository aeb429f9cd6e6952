#include "src/experiment/diagnosis_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;

ScoredStep Positive(std::string symbol, int rank, std::string guess, int guessed_rank,
                    double score = 1) {
  ScoredStep step;
  step.run_id = "a";
  step.label = {.status = LabelStatus::kPositive,
                .stretch = 0,
                .kind = "slow",
                .view = View::kVertical,
                .level = 3,
                .culprit_rank = RankId{rank},
                .culprit_symbol = std::move(symbol)};
  step.score = score;
  step.names_operators = true;
  step.rank_count = 2;
  step.predicted_rank = RankId{guessed_rank};
  if (!guess.empty())
    step.operators.push_back({.rank = RankId{guessed_rank}, .symbol = std::move(guess)});
  return step;
}

ScoredStep Negative(std::string guess, double score) {
  ScoredStep step = Positive("", -1, std::move(guess), 0, score);
  step.label = {};
  return step;
}

StepRefs All(const std::vector<ScoredStep>& steps) { return Select(steps, {}); }

TEST(DiagnosisMetricsTest, OperatorMacroF1IsOverTheUnionOfTrueAndNamedSymbols) {
  // Named when the score reaches .5. sklearn f1_score on (a,a,b,c,-,-) against (a,b,b,-,d,-),
  // labels a b c d: a 2/3, b 2/3, c 0, d 0 -> macro 1/3, micro .5.
  const std::vector<ScoredStep> steps = {Positive("a", 0, "a", 0), Positive("a", 0, "b", 0),
                                         Positive("b", 0, "b", 0), Positive("c", 0, "c", 0, .1),
                                         Negative("d", .9),        Negative("a", .2)};
  const OperatorScores scores =
      ScoreOperators(All(steps), .5, 4.0 / 6);  // the natural prior: all weights equal
  EXPECT_NEAR(scores.macro_f1, 1.0 / 3, 1e-12);
  EXPECT_NEAR(scores.micro_f1, .5, 1e-12);
  EXPECT_NEAR(scores.macro_f1_support, 4.0 / 9, 1e-12);  // a, b, c
  EXPECT_EQ(scores.classes, 4);
}

TEST(DiagnosisMetricsTest, FalseAlarmsWeighMoreAtALowPrior) {
  const std::vector<ScoredStep> steps = {Positive("a", 0, "a", 0), Negative("a", .9)};
  // Prior .1: hit weighs .1 / .5, false alarm .9 / .5: F1 = 2 * .2 / (2 * .2 + 1.8).
  EXPECT_NEAR(ScoreOperators(All(steps), .5, .1).macro_f1, .4 / 2.2, 1e-12);
}

TEST(DiagnosisMetricsTest, KindsWithoutOperatorAreScoredOnAbstention) {
  const std::vector<ScoredStep> steps = {Positive("", 1, "a", 0), Positive("b", 1, "b", 1),
                                         Negative("", .1)};
  // Class a: one false naming, F1 0. Class b: right.
  EXPECT_NEAR(ScoreOperators(All(steps), .5, 2.0 / 3).macro_f1, .5, 1e-12);
  EXPECT_DOUBLE_EQ(OperatorTopK(All(steps), 1), 1);  // only the step with an operator counts
}

TEST(DiagnosisMetricsTest, TopKWantsSymbolAndRank) {
  ScoredStep second = Positive("a", 0, "b", 0);
  second.operators.push_back({.rank = RankId{0}, .symbol = "a"});
  const std::vector<ScoredStep> steps = {Positive("a", 0, "a", 0), Positive("a", 0, "a", 1),
                                         second};
  EXPECT_NEAR(OperatorTopK(All(steps), 1), 1.0 / 3, 1e-12);
  EXPECT_NEAR(OperatorTopK(All(steps), 3), 2.0 / 3, 1e-12);
  EXPECT_NEAR(RankTop1(All(steps)), 2.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(RankChance(All(steps)), .5);
}

TEST(DiagnosisMetricsTest, HeadsThatAMethodDoesNotFillAreBlank) {
  std::vector<ScoredStep> steps = {Positive("a", 0, "", 0), Negative("", .1)};
  for (ScoredStep& step : steps) {
    step.names_operators = false;
    step.predicted_rank = kNoRank;
  }
  EXPECT_TRUE(std::isnan(OperatorTopK(All(steps), 1)));
  EXPECT_TRUE(std::isnan(ScoreOperators(All(steps), .5, .5).macro_f1));
  EXPECT_TRUE(std::isnan(RankTop1(All(steps))));
  EXPECT_TRUE(std::isnan(KindMacroF1(KindConfusion(All(steps)))));
}

TEST(DiagnosisMetricsTest, KindF1CountsUnknownAsMissedOnly) {
  const Confusion confusion = {{{"pause", "pause"}, 3},
                               {{"pause", "unknown"}, 1},
                               {{"delay", "pause"}, 2},
                               {{"delay", "delay"}, 2}};
  // pause: 3 hits, 1 missed, 2 wrong: 6/9. delay: 2 hits, 2 missed: 4/6. Mean 2/3.
  EXPECT_NEAR(KindMacroF1(confusion), 2.0 / 3, 1e-12);
  EXPECT_NEAR(KindAccuracy(confusion), 5.0 / 8, 1e-12);
  const Confusion families = ByFamily(confusion, {{"pause", "host"}, {"delay", "communication"}});
  EXPECT_EQ(families.at({"communication", "host"}), 2);
  EXPECT_EQ(families.at({"host", "unknown"}), 1);
}

TEST(DiagnosisMetricsTest, PlaceboAndHealthyAlarmsAreCountedApart) {
  ScoredStep placebo = Negative("", .9);
  placebo.label.stretch = 2;
  placebo.label.reasons = dataset::kReasonPlacebo;
  ScoredStep quiet_placebo = placebo;
  quiet_placebo.score = .1;
  ScoredStep idle_in_stretch = Negative("", .9);
  idle_in_stretch.label.stretch = 3;
  idle_in_stretch.label.reasons = dataset::kReasonNoAction;
  const std::vector<ScoredStep> steps = {placebo,          quiet_placebo,    idle_in_stretch,
                                         Negative("", .9), Negative("", .1), Negative("", .2),
                                         Negative("", .3)};
  const AlarmRates rates = ScoreAlarms(All(steps), .5);
  EXPECT_DOUBLE_EQ(rates.placebo, .5);
  EXPECT_DOUBLE_EQ(rates.healthy, .25);
  EXPECT_EQ(rates.placebo_steps, 2);
  EXPECT_EQ(rates.healthy_steps, 4);
}

TEST(DiagnosisMetricsTest, AViewKeepsItsPositivesAndAllNegatives) {
  std::vector<ScoredStep> steps = {Positive("a", 0, "a", 0), Positive("b", 0, "b", 0),
                                   Negative("", .1)};
  steps[0].label.view = View::kHorizontal;
  steps[0].label.level = 1;
  EXPECT_EQ(Select(steps, {.view = View::kHorizontal}).size(), 2u);
  EXPECT_EQ(Select(steps, {.view = View::kHorizontal, .level_low = 2}).size(), 1u);
  EXPECT_EQ(Select(steps, {.kind = "other"}).size(), 1u);
  EXPECT_EQ(Select(steps, {}).size(), 3u);
}

/// One run of four steps: calibration, negative, positive, grey.
RunTruth FourSteps() {
  return {.run_id = "run0",
          .ranks = {0, 1},
          .engine_steps = {0, 1, 2, 3},
          .labels = {{.reasons = dataset::kReasonCalibration},
                     {},
                     {.status = LabelStatus::kPositive, .stretch = 0},
                     {.status = LabelStatus::kGrey, .stretch = 0}}};
}

TEST(JoinPredictionsTest, LeavesOutGreyStepsAndTheCalibrationWindow) {
  dataset::PredictionsFile file{.method = "m", .kinds = {"pause", "unknown"}};
  file.steps.push_back({.run_id = "run0", .engine_step = 1, .score = .1f});
  file.steps.push_back({.run_id = "run0",
                        .engine_step = 2,
                        .score = .9f,
                        .kind_probability = {.2f, .8f},
                        .rank_probability = {.1f, .9f}});
  const std::vector<RunTruth> truth = {FourSteps()};
  const std::vector<ScoredStep> joined = JoinPredictions(truth, file);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_FALSE(IsPositive(joined[0]));
  EXPECT_EQ(joined[1].predicted_kind, "unknown");
  EXPECT_EQ(joined[1].predicted_rank, RankId{1});
  EXPECT_NE(joined[0].block, joined[1].block);
}

TEST(JoinPredictionsTest, RefusesAnotherTestSet) {
  dataset::PredictionsFile file{.method = "m"};
  file.steps.push_back({.run_id = "run0", .engine_step = 1});
  const std::vector<RunTruth> truth = {FourSteps()};
  EXPECT_THROW(JoinPredictions(truth, file), DataError);
  file.steps.push_back({.run_id = "run0", .engine_step = 2});
  EXPECT_NO_THROW(JoinPredictions(truth, file));
  file.steps.push_back({.run_id = "run0", .engine_step = 2});
  EXPECT_THROW(JoinPredictions(truth, file), DataError);
}

}  // namespace
}  // namespace teller::experiment
