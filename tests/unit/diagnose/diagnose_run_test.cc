#include "src/diagnose/diagnose_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/diagnose/report.h"
#include "tests/support/forest_generator.h"

namespace teller::diagnose {
namespace {

using ::testing::HasSubstr;
using testing_support::DelayPlace;
using testing_support::ForestOptions;
using testing_support::GenerateRun;

std::vector<uint8_t> Calibration(const dataset::StepsFile& steps) {
  std::vector<uint8_t> flags;
  for (const auto& label : steps.labels)
    flags.push_back((label.reasons & dataset::kReasonCalibration) != 0);
  return flags;
}

localize::Baseline HealthyBaseline() {
  std::vector<dataset::StepsFile> files;
  for (const uint64_t seed : {11, 12, 13, 14})
    files.push_back(GenerateRun({.seed = seed, .steps = 150}));
  std::vector<localize::TrainingRun> runs;
  for (const auto& file : files)
    runs.push_back({&file.run, std::vector<uint8_t>(150, 1), Calibration(file)});
  return localize::FitBaseline(runs);
}

dataset::StepsFile FaultyRun() {
  ForestOptions options{.seed = 21, .steps = 150};
  options.delays = {{.first_step = 80,
                     .last_step = 120,
                     .rank = RankId{1},
                     .symbol = "linear",
                     .delay_ns = 400'000}};
  return GenerateRun(options);
}

TEST(DiagnoseRunTest, FindsTheSlowOperatorAndSaysNothingOfHealthySteps) {
  const auto steps = FaultyRun();
  const auto baseline = HealthyBaseline();
  const RunDiagnosis run = DiagnoseRun(steps, LocalizeAgainst(steps, baseline, 0.1), nullptr);
  EXPECT_EQ(run.verdict, Verdict::kAbnormal);
  ASSERT_EQ(run.steps.size(), 150);
  int found = 0, named = 0, false_alarms = 0;
  for (const StepDiagnosis& step : run.steps) {
    const bool faulty = step.engine_step >= 80 && step.engine_step < 120;
    if (!step.abnormal) {
      EXPECT_EQ(step.explanation, "Nothing abnormal found.");
    }
    if (!faulty) false_alarms += step.abnormal;
    if (!faulty || !step.abnormal) continue;
    ++found;
    ASSERT_FALSE(step.suspects.empty());
    const Suspect& first = step.suspects.front();
    if (first.op == "linear" && first.rank == RankId{1}) ++named;
    EXPECT_THAT(step.explanation, HasSubstr(first.op));
  }
  EXPECT_GE(found, 38);
  EXPECT_GE(named, 36);
  EXPECT_LE(false_alarms, 15);  // "healthy" steps hold outliers of up to twenty times as long
}

TEST(DiagnoseRunTest, WaitsOfTheOtherRankAreEvidence) {
  const auto steps = FaultyRun();
  const auto baseline = HealthyBaseline();
  const RunDiagnosis run = DiagnoseRun(steps, LocalizeAgainst(steps, baseline, 0.1), nullptr);
  const StepDiagnosis& step = run.steps[100];
  ASSERT_FALSE(step.waits.empty());
  EXPECT_EQ(step.waits.front().rank, RankId{0});
  EXPECT_THAT(step.waits.front().op, HasSubstr("all_reduce"));
  EXPECT_GT(step.waits.front().waited_ns, 400'000);
  EXPECT_THAT(step.explanation, HasSubstr("Rank 0 waited"));
}

TEST(DiagnoseRunTest, AHealthyRunIsCalledHealthy) {
  const auto steps = GenerateRun({.seed = 31, .steps = 150});
  const auto baseline = HealthyBaseline();
  const RunDiagnosis run = DiagnoseRun(steps, LocalizeAgainst(steps, baseline, 0.1), nullptr);
  EXPECT_EQ(run.verdict, Verdict::kHealthy);
  EXPECT_THAT(ReportText(run), HasSubstr("Nothing abnormal found. 150 steps looked at."));
}

TEST(DiagnoseRunTest, WithoutABaselineFaultyStepsScoreHighestAndItSaysThatThisIsWeaker) {
  ForestOptions options{.seed = 21, .steps = 300};
  options.delays = {{.first_step = 80,
                     .last_step = 110,
                     .rank = RankId{1},
                     .symbol = "linear",
                     .delay_ns = 400'000}};
  const auto steps = GenerateRun(options);
  const Localization found = LocalizeWithin(steps, 0.1);
  EXPECT_EQ(found.basis, Basis::kSteps);
  std::vector<std::size_t> order(found.suspects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return found.suspects[a].score > found.suspects[b].score;
  });
  const auto faulty = std::count_if(order.begin(), order.begin() + 30,
                                    [](std::size_t s) { return s >= 80 && s < 110; });
  EXPECT_GE(faulty, 18);  // chance gives 3
  const RunDiagnosis run = DiagnoseRun(steps, found, nullptr);
  ASSERT_FALSE(run.notes.empty());
  EXPECT_THAT(run.notes[0], HasSubstr("weaker"));
}

TEST(DiagnoseRunTest, OfManyStepsWithoutABaselineNothingFoundProvesNothing) {
  const auto steps = GenerateRun({.seed = 41, .steps = 100, .outliers = 0});
  EXPECT_NE(DiagnoseRun(steps, LocalizeWithin(steps, 0.1), nullptr).verdict, Verdict::kHealthy);
}

TEST(DiagnoseRunTest, AFewStepsAreComparedInsideTheTrace) {
  ForestOptions options{.seed = 21, .steps = 8, .outliers = 0};
  const auto healthy = GenerateRun(options);
  EXPECT_EQ(LocalizeWithin(healthy, 0.1).basis, Basis::kInside);
  EXPECT_EQ(DiagnoseRun(healthy, LocalizeWithin(healthy, 0.1), nullptr).verdict, Verdict::kHealthy);
  options.delays = {{.first_step = 3,
                     .last_step = 4,
                     .rank = RankId{1},
                     .symbol = "linear",
                     .delay_ns = 3'000'000}};
  const auto steps = GenerateRun(options);
  const RunDiagnosis run = DiagnoseRun(steps, LocalizeWithin(steps, 0.1), nullptr);
  EXPECT_EQ(run.verdict, Verdict::kAbnormal);
  for (const StepDiagnosis& step : run.steps) EXPECT_EQ(step.abnormal, step.engine_step == 3);
  ASSERT_FALSE(run.steps[3].suspects.empty());
  EXPECT_EQ(run.steps[3].suspects[0].op, "linear");
  EXPECT_EQ(run.steps[3].suspects[0].rank, RankId{1});
  EXPECT_FALSE(run.steps[3].suspects[0].p_value);
}

TEST(DiagnoseRunTest, NoStepIsUndecided) {
  const dataset::StepsFile nothing;
  EXPECT_EQ(DiagnoseRun(nothing, LocalizeWithin(nothing, 0.1), nullptr).verdict,
            Verdict::kUndecided);
}

TEST(DiagnoseRunTest, TheModelsAnswerComesFirstWithMeasuredTimes) {
  const auto steps = FaultyRun();
  const auto baseline = HealthyBaseline();
  const auto suspects = LocalizeAgainst(steps, baseline, 0.1);
  dataset::PredictionsFile file{"teller", 0, {"operator_slowdown", "unknown"}, {}};
  dataset::StepPrediction answer;
  answer.run_id = steps.run.run_id;
  answer.engine_step = 10;
  answer.probability = 0.9f;
  answer.kind_probability = {0.8f, 0.2f};
  const auto& forest = steps.run.steps[10];
  const NodeId node{5};
  const std::string symbol(
      steps.run.symbols.View(StringId{static_cast<uint32_t>(Index(forest.nodes[5].symbol))}));
  answer.operators = {{forest.tracks[forest.nodes[5].track].rank, symbol, node, 0.7f}};
  file.steps = {answer};
  const RunDiagnosis run = DiagnoseRun(steps, suspects, &file);
  const StepDiagnosis& step = run.steps[10];
  EXPECT_TRUE(step.abnormal);
  EXPECT_EQ(step.fault_kind, "operator_slowdown");
  ASSERT_FALSE(step.suspects.empty());
  EXPECT_EQ(step.suspects.front().op, symbol);
  EXPECT_GT(step.suspects.front().observed_ns, 0);
  // A guess that is not in the step is not repeated.
  file.steps[0].operators[0] = {RankId{0}, "never_ran", NodeId{5}, 0.9f};
  EXPECT_NE(DiagnoseRun(steps, suspects, &file).steps[10].suspects.front().op, "never_ran");
}

TEST(ReportTest, JsonHasTheFieldsOfTheDesign) {
  const auto steps = FaultyRun();
  const auto baseline = HealthyBaseline();
  const auto json = nlohmann::json::parse(
      ReportJson(DiagnoseRun(steps, LocalizeAgainst(steps, baseline, 0.1), nullptr)));
  EXPECT_EQ(json["verdict"], "abnormal");
  ASSERT_EQ(json["steps"].size(), 150);
  const auto& step = json["steps"][100];
  for (const char* key : {"step", "begin_ns", "end_ns", "score", "abnormal", "fault_kind",
                          "candidates", "explanation", "evidence"}) {
    EXPECT_TRUE(step.contains(key)) << key;
  }
  ASSERT_FALSE(step["candidates"].empty());
  for (const char* key :
       {"rank", "peer", "operator", "layer", "observed_ns", "expected_ns", "p_value"}) {
    EXPECT_TRUE(step["candidates"][0].contains(key)) << key;
  }
  EXPECT_EQ(step["evidence"][0]["type"], "time");
  for (const char* key : {"basis", "late_starters", "notes", "not_looked_at"})
    EXPECT_TRUE(json.contains(key)) << key;
}

}  // namespace
}  // namespace teller::diagnose
