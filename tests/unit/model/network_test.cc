#include "src/model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/model/training_set.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tokens_generator.h"

namespace teller::model {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::MakeTokens;
using testing_support::TemporaryFolder;

ModelConfig Small() {
  ModelConfig config;
  config.d_model = 16;
  config.layers = 1;
  config.heads = 2;
  config.feed_forward = 32;
  config.dropout = 0;
  config.learning_rate = 5e-3;
  return config;
}

/// A run, its features and a network over them.
struct Fixture {
  explicit Fixture(const ModelConfig& wanted = Small(), int64_t seed = 1) : config(wanted) {
    run = MakeTokens({.steps = 60, .tokens_per_rank = 12, .vocabulary = 20});
    const dataset::TokensFile* const runs[] = {&run};
    const LogPieces pieces = LogPieces::Train(runs, 64);
    shape = {run.vocabulary_hash, run.vocabulary_size, pieces.size(), run.number_names,
             run.localizer_names};
    kinds = CollectKinds(runs);
    steps = BuildLabelledSteps(runs, shape, FitStandardization(runs), pieces, config, kinds);
    network = std::make_unique<Network>(config, shape, std::ssize(kinds), seed);
  }

  Batch TrainingBatch(std::span<const uint32_t> indices) const {
    std::vector<const StepFeatures*> features;
    std::vector<const StepTarget*> targets;
    for (const uint32_t i : indices) {
      features.push_back(&steps.features[i]);
      targets.push_back(&steps.targets[i]);
    }
    return BuildTrainingBatch(features, targets, std::ssize(kinds), config);
  }
  Outputs Predict(std::size_t first, std::size_t count) const {
    std::vector<const StepFeatures*> features;
    for (std::size_t i = 0; i < count; ++i) features.push_back(&steps.features[first + i]);
    return network->Predict(BuildBatch(features, config));
  }
  /// Two positive steps of different kinds and two healthy ones.
  std::vector<uint32_t> FourSteps() const {
    std::vector<uint32_t> chosen;
    int positive = 0, healthy = 0, last_kind = -1;
    for (uint32_t i = 20; i < steps.targets.size(); ++i) {
      const StepTarget& target = steps.targets[i];
      if (target.abnormal && positive < 2 && target.kind != last_kind) {
        ++positive;
        last_kind = target.kind;
        chosen.push_back(i);
      } else if (!target.abnormal && healthy < 2) {
        ++healthy;
        chosen.push_back(i);
      }
    }
    return chosen;
  }

  ModelConfig config;
  dataset::TokensFile run;
  InputShape shape;
  std::vector<std::string> kinds;
  LabelledSteps steps;
  std::unique_ptr<Network> network;
};

TEST(NetworkTest, OutputsHaveTheShapesOfTheBatchAndAreDistributions) {
  const Fixture fixture;
  const Outputs outputs = fixture.Predict(20, 5);
  EXPECT_EQ(outputs.abnormal.size(), 5);
  EXPECT_EQ(outputs.kind.size(), 15);
  EXPECT_EQ(outputs.rank.size(), 10);
  EXPECT_EQ(outputs.none.size(), 5);
  ASSERT_EQ(outputs.node.size(), 5 * 24 * 3);
  for (int step = 0; step < 5; ++step) {
    double pointer = std::exp(outputs.none[step]);
    for (int node = 0; node < 72; ++node) pointer += std::exp(outputs.node[step * 72 + node]);
    EXPECT_NEAR(pointer, 1, 1e-4);  // float32 sums of 73 terms
    EXPECT_NEAR(std::exp(outputs.rank[step * 2]) + std::exp(outputs.rank[step * 2 + 1]), 1, 1e-5);
  }
}

TEST(NetworkTest, PaddingDoesNotChangeAStep) {
  Fixture fixture;
  // Step 21 loses half of its tokens; beside step 20 it is padded to twice its length.
  StepFeatures& step = fixture.steps.features[21];
  for (auto* column : {&step.id, &step.parent}) column->resize(12);
  for (auto* column : {&step.layer, &step.rank, &step.depth}) column->resize(12);
  step.position.resize(12);
  step.values.resize(12 * ValueWidth(fixture.config));
  step.nodes.resize(36);
  const Outputs together = fixture.Predict(20, 2);
  const Outputs alone = fixture.Predict(21, 1);
  EXPECT_NEAR(together.abnormal[1], alone.abnormal[0], 1e-4);
  EXPECT_NEAR(together.none[1], alone.none[0], 1e-4);
  EXPECT_NEAR(together.node[72], alone.node[0], 1e-4);
  EXPECT_NEAR(together.rank[2], alone.rank[0], 1e-4);
}

TEST(NetworkTest, GradientsAreFiniteAndReachEveryParameterInUse) {
  Fixture fixture;
  std::vector<uint32_t> all;
  for (uint32_t i = 20; i < 60; ++i) all.push_back(i);
  const Losses losses = fixture.network->Train(fixture.TrainingBatch(all), 0, 1e-3);
  EXPECT_TRUE(std::isfinite(losses.total));
  EXPECT_TRUE(std::isfinite(losses.gradient_norm));
  EXPECT_GT(losses.gradient_norm, 0);
  EXPECT_GT(losses.abnormal, 0);
  EXPECT_GT(losses.kind, 0);
  EXPECT_GT(losses.pointer, 0);
  EXPECT_GT(losses.rank, 0);
  EXPECT_THAT(fixture.network->parameters().Untouched(), ::testing::IsEmpty());
}

TEST(NetworkTest, SameSeedSameLossOtherSeedOtherLoss) {
  ModelConfig config = Small();
  config.dropout = 0.2;
  Fixture first(config, 5), second(config, 5), third(config, 6);
  const auto four = first.FourSteps();
  for (int update = 0; update < 3; ++update) {
    const double loss = first.network->Train(first.TrainingBatch(four), update, 1e-3).total;
    EXPECT_EQ(loss, second.network->Train(second.TrainingBatch(four), update, 1e-3).total);
    EXPECT_NE(loss, third.network->Train(third.TrainingBatch(four), update, 1e-3).total);
  }
}

TEST(NetworkTest, MemorisesFourSteps) {
  Fixture fixture;
  const auto four = fixture.FourSteps();
  ASSERT_EQ(four.size(), 4);
  const Batch batch = fixture.TrainingBatch(four);
  Losses losses;
  for (int update = 0; update < 300; ++update) losses = fixture.network->Train(batch, update, 5e-3);
  EXPECT_LT(losses.abnormal, 0.02);
  EXPECT_LT(losses.kind, 0.05);
  EXPECT_LT(losses.pointer, 0.05);
  EXPECT_LT(losses.rank, 0.05);
}

TEST(NetworkTest, WorksWithoutTokensAndOnStepsThatHaveNone) {
  Fixture fixture;
  fixture.steps.features[20] = {};
  fixture.steps.features[20].numbers.resize(4);
  fixture.steps.features[20].localizer.resize(3);
  fixture.steps.features[20].ranks = 2;
  EXPECT_THAT(fixture.Predict(20, 1).abnormal,
              Each(::testing::Truly([](float x) { return std::isfinite(x); })));
  ModelConfig config = Small();
  config.modalities.tokens = false;
  Fixture without(config);
  const Outputs outputs = without.Predict(20, 4);
  EXPECT_EQ(outputs.abnormal.size(), 4);
  EXPECT_TRUE(outputs.node.empty());
  EXPECT_TRUE(outputs.rank.empty());
  EXPECT_TRUE(std::isfinite(
      without.network->Train(without.TrainingBatch(without.FourSteps()), 0, 1e-3).gradient_norm));
}

TEST(ParametersTest, WeightsReadBackAndMismatchesAreRefused) {
  const TemporaryFolder folder;
  Fixture written(Small(), 1), read(Small(), 2);
  written.network->parameters().SaveWeights(folder / "w.pt");
  EXPECT_NE(written.Predict(20, 3).abnormal, read.Predict(20, 3).abnormal);
  read.network->parameters().LoadWeights(folder / "w.pt");
  EXPECT_EQ(written.Predict(20, 3).abnormal, read.Predict(20, 3).abnormal);

  ModelConfig wider = Small();
  wider.feed_forward = 64;
  Fixture other(wider);
  EXPECT_THAT([&] { other.network->parameters().LoadWeights(folder / "w.pt"); },
              ThrowsMessage<DataError>(HasSubstr("another shape")));
  WriteFileAtomically(folder / "junk.pt", "PK\x03\x04 junk");
  EXPECT_THAT([&] { read.network->parameters().LoadWeights(folder / "junk.pt"); },
              ThrowsMessage<DataError>(HasSubstr("not a file of tensors")));
}

}  // namespace
}  // namespace teller::model
