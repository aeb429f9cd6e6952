#include "src/experiment/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;

/// A run of one calibration step, four healthy steps, a placebo, and two faults (one a view);
/// scores tell them apart but for the placebo, which scores like a fault.
SeedResult OneRun() {
  SeedResult seed{.seed = 1, .thresholds = {}};
  const auto add = [&](LabelStatus status, View view, int stretch, uint32_t reasons, double score,
                       const char* symbol) {
    ScoredStep step;
    step.run_id = "run0";
    step.label = {.status = status,
                  .reasons = reasons,
                  .stretch = stretch,
                  .kind = *symbol ? "slow" : "",
                  .view = view,
                  .level = *symbol ? 3 : 0,
                  .culprit_rank = RankId{*symbol ? 0 : -1},
                  .culprit_symbol = symbol};
    step.score = step.probability = score;
    step.names_operators = true;
    step.operators = {{.rank = RankId{0}, .symbol = "gemm"}};
    seed.test.push_back(step);
  };
  for (int i = 0; i < 4; ++i) add(LabelStatus::kNegative, View::kNone, -1, 0, .1, "");
  add(LabelStatus::kNegative, View::kNone, 0, dataset::kReasonPlacebo, .9, "");
  add(LabelStatus::kPositive, View::kHorizontal, 1, 0, .9, "all_reduce");
  add(LabelStatus::kPositive, View::kVertical, 2, 0, .8, "gemm");
  for (const double prior : kPriors) seed.thresholds[prior] = .5;
  return seed;
}

const Cell* Find(const std::vector<Cell>& cells, const std::string& table,
                 const std::string& metric, const nlohmann::ordered_json& keys) {
  for (const Cell& cell : cells) {
    bool fits = cell.table == table && cell.metric == metric;
    for (const auto& [key, value] : keys.items())
      fits = fits && cell.row.contains(key) && cell.row[key] == value;
    if (fits) return &cell;
  }
  return nullptr;
}

TEST(EvaluationTest, MainComparisonScoresEachViewOnItsPositivesAndAllNegatives) {
  const std::vector<MethodResult> methods = {{"teller", {}, {OneRun()}}};
  const std::vector<Cell> cells = MainComparison(methods, "teller");
  // One positive found, one of five negatives flagged. Precision at .43: .43 / (.43 + .57 / 5) =
  // .7904.
  const Cell* precision =
      Find(cells, "E2", "precision", {{"view", "horizontal"}, {"levels", "1-5"}});
  ASSERT_NE(precision, nullptr);
  EXPECT_NEAR(*precision->value, .790441, 1e-6);
  EXPECT_EQ(precision->n, 6);
  EXPECT_EQ(Find(cells, "E2", "f1", {{"view", "horizontal"}, {"levels", "1-5"}})->published, .916);
  EXPECT_FALSE(
      Find(cells, "E2", "f1", {{"view", "combined"}, {"levels", "1-5"}})->published.has_value());
  EXPECT_DOUBLE_EQ(
      *Find(cells, "E2", "operator_top1", {{"view", "vertical"}, {"levels", "2-5"}})->value, 1);
  EXPECT_DOUBLE_EQ(
      *Find(cells, "E2", "operator_top1", {{"view", "combined"}, {"levels", "2-5"}})->value, .5);
  EXPECT_EQ(Find(cells, "E2", "f1", {{"view", "combined"}, {"levels", "1"}}), nullptr)
      << "no positive of level 1";
  // Always positive on this kind: 2 of 7.
  EXPECT_NEAR(*Find(cells, "E2_kinds", "chance", {{"kind", "slow"}, {"levels", "2-5"}})->value,
              2.0 / 7, 1e-12);
}

TEST(EvaluationTest, PlacebosThatAlarmFailTheirControl) {
  SeedResult seed = OneRun();
  // A second placebo stretch and a second healthy time, so that both rates have a spread over
  // blocks.
  for (std::size_t i = 0; i < 5; ++i) {
    seed.test.push_back(seed.test[i]);
    seed.test.back().run_id = "run1";
  }
  const MethodResult model{"teller", {}, {seed}};
  const std::vector<Cell> cells = LeakControls({model, model, model, model, model});
  const Cell* holds = Find(cells, "E0", "holds", {{"control", "placebo stretches"}});
  ASSERT_NE(holds, nullptr);
  EXPECT_EQ(holds->value, 0.0);  // both placebos flagged, none of the healthy steps
  EXPECT_EQ(Find(cells, "E0", "value", {{"control", "placebo stretches"}})->value, 1.0);
  EXPECT_EQ(Find(cells, "E0", "expected", {{"control", "placebo stretches"}})->value, 0.0);
}

TEST(EvaluationTest, AControlThatSeparatesIsNotAtChance) {
  const MethodResult separating{"schedule only", {}, {OneRun()}};
  SeedResult flat = OneRun();
  for (ScoredStep& step : flat.test) step.score = 1;
  const MethodResult constant{"labels permuted within run", {}, {flat}};
  const std::vector<Cell> cells =
      LeakControls({constant, separating, constant, constant, separating});
  EXPECT_EQ(
      Find(cells, "E0", "holds", {{"control", "schedule only"}, {"measure", "ROC-AUC"}})->value,
      0.0);
  EXPECT_EQ(Find(cells, "E0", "holds",
                 {{"control", "labels permuted within run"}, {"measure", "ROC-AUC"}})
                ->value,
            1.0);
}

/// A run of three scored steps and one in the calibration window.
dataset::TokensFile Tokens(const std::string& run, uint32_t nodes, uint32_t tokens) {
  dataset::TokensFile file{.run_id = run, .ranks = {0, 1}};
  for (int i = 0; i < 4; ++i) {
    dataset::StepTokens step{.engine_step = i};
    step.forest_nodes = nodes;
    step.forest_tokens = tokens;
    step.slice_nodes = nodes / 2;
    step.decodes = 1;
    step.times_add_up = i != 3;
    if (i == 0) step.label.reasons = dataset::kReasonCalibration;
    if (i == 2) {
      step.label = {.status = LabelStatus::kPositive,
                    .stretch = 0,
                    .kind = "slow",
                    .view = View::kVertical,
                    .level = 2,
                    .recorded_ns = {0, 90'000}};
    }
    if (i == 3) step.label.status = LabelStatus::kGrey;
    file.steps.push_back(std::move(step));
  }
  return file;
}

TEST(EvaluationTest, DataStatisticsCountByPart) {
  const std::vector<RunSummary> runs = {Summarize(Tokens("a", 100, 10), 128),
                                        Summarize(Tokens("b", 100, 10), 128),
                                        Summarize(Tokens("c", 200, 10), 128)};
  const std::vector<Cell> cells =
      DataStatistics(runs, {.train = {"a"}, .validation = {"b"}, .test = {"c"}});
  EXPECT_EQ(Find(cells, "E1", "positive", {{"split", "train"}})->value, 1.0);
  EXPECT_EQ(Find(cells, "E1", "grey", {{"split", "all"}})->value, 3.0);
  EXPECT_EQ(Find(cells, "E1", "calibration", {{"split", "all"}})->value, 3.0);
  EXPECT_EQ(Find(cells, "E1", "nodes_per_step", {{"split", "test"}})->value, 200.0);
  EXPECT_EQ(Find(cells, "E1_kinds", "recorded_us", {{"kind", "slow"}, {"levels", 2}})->value, 90.0);
  EXPECT_EQ(Find(cells, "E1_kinds", "stretches", {{"kind", "slow"}, {"levels", 2}})->value, 3.0);
}

TEST(EvaluationTest, CompressionIsOfSumsOverScoredTestSteps) {
  const TradeOffPoint point{
      .result = {"teller",
                 {{"mode", "structural"}, {"vocabulary", 64}, {"inputs", "tokens"}},
                 {OneRun()}},
      .entries = 60,
      .exhausted = true,
      .test = {Summarize(Tokens("a", 100, 10), 128), Summarize(Tokens("b", 300, 50), 128)},
      .slices = 8,
      .exact = 6};
  EXPECT_EQ(point.test[0].slices, 4);
  EXPECT_EQ(point.test[0].exact, 3);
  const std::vector<Cell> cells = TradeOff(std::vector<TradeOffPoint>{point});
  const Cell* compression = Find(cells, "E3", "compression", {{"vocabulary", 64}});
  ASSERT_NE(compression, nullptr);
  EXPECT_DOUBLE_EQ(*compression->value, .85);  // 1 - (2 * 10 + 2 * 50) / (2 * 100 + 2 * 300)
  EXPECT_NEAR(*compression->low, 1 - 50.0 / 300, 1e-12);
  EXPECT_DOUBLE_EQ(*compression->high, .9);
  EXPECT_DOUBLE_EQ(*Find(cells, "E3", "tokens_per_step", {{"vocabulary", 64}})->value, 30);
  EXPECT_EQ(Find(cells, "E3", "exhausted", {{"vocabulary", 64}})->value, 1.0);
  EXPECT_EQ(Find(cells, "E3", "exact", {{"vocabulary", 64}})->value, .75);
  EXPECT_EQ(UnmetExpectations(cells, "teller").size(), 1u);
  EXPECT_EQ(Find(cells, "E3", "f1", {{"source", "published"}, {"vocabulary", 1024}})->published,
            .531);
}

}  // namespace
}  // namespace teller::experiment
