#include "src/model/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/core/error.h"
#include "src/model/training_set.h"
#include "tests/support/tokens_generator.h"

namespace teller::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::MakeTokens;

InputShape ShapeOf(const dataset::TokensFile& run) {
  return {run.vocabulary_hash, run.vocabulary_size, 0, run.number_names, run.localizer_names};
}

dataset::TokensFile ThreeSteps() { return MakeTokens({.steps = 3}); }

struct Built {
  explicit Built(const dataset::TokensFile& run, const ModelConfig& config = {}) {
    const dataset::TokensFile* const runs[] = {&run};
    standardization = FitStandardization(runs);
    steps = BuildFeatures(run, ShapeOf(run), standardization, LogPieces(), config);
  }
  Standardization standardization;
  std::vector<StepFeatures> steps;
};

TEST(SelectTokensTest, KeepsTheLargestResidualsInTheirOrder) {
  dataset::StepTokens step;
  for (const float residual : {0.f, 3.f, 1.f, 3.f, 2.f}) {
    step.tokens.emplace_back();
    step.tokens.back().residual = residual;
  }
  ModelConfig config;
  config.length = 3;
  EXPECT_THAT(SelectTokens(step, config), ElementsAre(1, 3, 4));
  config.length = 1;
  EXPECT_THAT(SelectTokens(step, config), ElementsAre(1));  // a tie: the earlier one
  config.selection = Selection::kOrder;
  config.length = 2;
  EXPECT_THAT(SelectTokens(step, config), ElementsAre(0, 1));
}

TEST(FeaturesTest, CountsWhatDoesNotFit) {
  const auto run = MakeTokens({.steps = 30, .tokens_per_rank = 24});
  ModelConfig config;
  config.length = 40;
  const Built built(run, config);
  EXPECT_EQ(built.steps[25].id.size(), 40);
  EXPECT_EQ(built.steps[25].cut_tokens, 8);
}

TEST(FeaturesTest, ARunTwiceAsSlowLooksTheSameAfterItsCalibrationWindow) {
  // The same seed, so the same scatter; only the run's factor differs. Deviation columns (1, 3, 5)
  // must agree.
  const auto usual = MakeTokens({.steps = 40, .positive_share = 0});
  const auto slow = MakeTokens({.steps = 40, .run_factor = 2, .positive_share = 0});
  const Built built(usual);
  const auto other = BuildFeatures(slow, ShapeOf(slow), built.standardization, LogPieces(), {});
  const int64_t width = ValueWidth({});
  for (std::size_t i = 0; i < other[30].id.size(); ++i) {
    const auto host = i * static_cast<std::size_t>(width) + 1;
    EXPECT_NEAR(other[30].values[host], built.steps[30].values[host], 0.02) << "token " << i;
  }
}

TEST(FeaturesTest, ContrastIsTheDistanceToTheSameOccurrenceOnOtherRanks) {
  auto run = MakeTokens({.steps = 60, .positive_share = 0});
  auto& step = run.steps[40];
  const Built before(run);
  // Token 3 of rank 0 takes exp(0.5) times as long: its contrast grows by 0.5 / 0.1; its peer's (24
  // tokens later) falls as much, and nobody else's moves.
  step.tokens[3].host_ns =
      static_cast<int64_t>(static_cast<double>(step.tokens[3].host_ns) * std::exp(0.5));
  const Built after(run);
  const auto contrast = [](const Built& built, std::size_t token) {
    return built.steps[40].values[token * static_cast<std::size_t>(ValueWidth({})) + 3];
  };
  EXPECT_NEAR(contrast(after, 3) - contrast(before, 3), 5, 0.1);
  EXPECT_NEAR(contrast(after, 27) - contrast(before, 27), -5, 0.1);
  EXPECT_NEAR(contrast(after, 4), contrast(before, 4), 0.05);
}

TEST(FeaturesTest, SwitchedOffAttributesHaveNoColumn) {
  ModelConfig config;
  const int64_t all = ValueWidth(config);
  config.attributes.host = false;
  config.attributes.residual = false;
  EXPECT_EQ(ValueWidth(config), all - 5);  // four of a channel, one of the residual
}

TEST(FeaturesTest, NumbersThatAreNotFiniteAreReplacedAndCounted) {
  auto run = MakeTokens({.steps = 30});
  run.steps[25].numbers[0] = std::numeric_limits<float>::quiet_NaN();
  run.steps[25].localizer[1] = std::numeric_limits<float>::infinity();
  const Built built(run);
  EXPECT_EQ(built.steps[25].replaced, 2);
  for (const float value : built.steps[25].numbers) EXPECT_TRUE(std::isfinite(value));
}

TEST(FeaturesTest, RefusesARunOfAnotherVocabularyOrColumns) {
  const auto run = MakeTokens({.steps = 3});
  InputShape shape = ShapeOf(run);
  shape.vocabulary_hash = "other";
  EXPECT_THAT([&] { CheckRun(run, shape); },
              ThrowsMessage<DataError>(HasSubstr("the model expects other")));
  shape = ShapeOf(run);
  shape.number_names.pop_back();
  EXPECT_THAT([&] { CheckRun(run, shape); },
              ThrowsMessage<DataError>(HasSubstr("step numbers are not the model's")));
}

TEST(FeaturesTest, RefusesReferencesOutsideTheStep) {
  const auto broken = [](auto&& edit) {
    auto run = ThreeSteps();
    edit(run.steps[1]);
    return [run] { CheckRun(run, ShapeOf(run)); };
  };
  EXPECT_THAT(broken([](auto& step) { step.tokens[2].id = 1000; }),
              ThrowsMessage<DataError>(HasSubstr("vocabulary")));
  EXPECT_THAT(broken([](auto& step) { step.tokens[2].rank = 9; }),
              ThrowsMessage<DataError>(HasSubstr("rank")));
  EXPECT_THAT(broken([](auto& step) { step.tokens[2].parent_token = 900; }),
              ThrowsMessage<DataError>(HasSubstr("parent")));
  EXPECT_THAT(broken([](auto& step) { step.tokens[2].first_node = 0xffffffffu; }),
              ThrowsMessage<DataError>(HasSubstr("nodes")));
  EXPECT_THAT(broken([](auto& step) { step.nodes[2].symbol = SymbolId{77777}; }),
              ThrowsMessage<DataError>(HasSubstr("symbol")));
  EXPECT_THAT(broken([](auto& step) { step.log_rank.push_back(0); }),
              ThrowsMessage<DataError>(HasSubstr("log ranks")));
}

TEST(TargetTest, PointsAtHitNodesOrSaysThatThereIsNoOperator) {
  const auto run = MakeTokens({.steps = 200});
  const Built built(run);
  const std::vector<std::string> kinds = {"collective_delay", "operator_slowdown", "process_pause"};
  int nodes = 0, none = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepTarget target = BuildTarget(run, run.steps[i], built.steps[i], kinds);
    EXPECT_EQ(target.use, i >= 20);  // calibration steps never teach
    if (!target.abnormal) continue;
    EXPECT_EQ(kinds[static_cast<std::size_t>(target.kind)], run.steps[i].label.kind);
    if (target.pointer == PointerTarget::kNone) {
      ++none;
      EXPECT_EQ(target.kind, 2);
    } else {
      ++nodes;
      ASSERT_EQ(target.nodes.size(), 1);
      const auto& node = run.steps[i].nodes[built.steps[i].nodes[target.nodes[0]].source];
      EXPECT_EQ(run.symbols[Index(node.symbol)], run.steps[i].label.culprit_symbol);
    }
  }
  EXPECT_GT(nodes, 0);
  EXPECT_GT(none, 0);
}

TEST(PlanBatchesTest, HalfIsPositiveKindsTakeTurnsAndGreyStepsAreLeftOut) {
  auto run = MakeTokens({.steps = 200});
  for (int i = 30; i < 60; ++i)
    run.steps[static_cast<std::size_t>(i)].label.status = dataset::LabelStatus::kGrey;
  const dataset::TokensFile* const runs[] = {&run};
  const std::vector<std::string> kinds = CollectKinds(runs);
  const LabelledSteps steps = BuildLabelledSteps(runs, ShapeOf(run), FitStandardization(runs),
                                                 LogPieces(), ModelConfig{}, kinds);
  ModelConfig config;
  config.updates = 50;
  config.batch = 12;
  std::vector<int> by_kind(kinds.size());
  for (const auto& batch : PlanBatches(steps, 3, config, 7)) {
    int positive = 0;
    for (const uint32_t i : batch) {
      EXPECT_TRUE(i >= 60 || (i >= 20 && i < 30)) << i;
      if (!steps.targets[i].abnormal) continue;
      ++positive;
      ++by_kind[static_cast<std::size_t>(steps.targets[i].kind)];
    }
    EXPECT_EQ(positive, 6);
  }
  EXPECT_THAT(by_kind, ElementsAre(100, 100, 100));
  EXPECT_EQ(PlanBatches(steps, 3, config, 7), PlanBatches(steps, 3, config, 7));
  EXPECT_NE(PlanBatches(steps, 3, config, 7), PlanBatches(steps, 3, config, 8));
  const auto counts = CountSteps(runs, steps);
  EXPECT_EQ(counts.at("steps_excluded_grey"), 30);
  EXPECT_EQ(counts.at("steps_excluded_calibration"), 20);
}

TEST(PlanBatchesTest, RefusesAnEmptyClass) {
  const auto run = MakeTokens({.steps = 60, .positive_share = 0});
  const dataset::TokensFile* const runs[] = {&run};
  const LabelledSteps steps = BuildLabelledSteps(runs, ShapeOf(run), FitStandardization(runs),
                                                 LogPieces(), ModelConfig{}, {});
  EXPECT_THAT([&] { PlanBatches(steps, 0, {}, 1); },
              ThrowsMessage<DataError>(HasSubstr("no positive step")));
}

}  // namespace
}  // namespace teller::model
