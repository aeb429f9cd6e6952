#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/model/manifest.h"
#include "src/model/predict.h"
#include "src/model/train.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tokens_generator.h"

namespace teller::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::MakeTokens;
using testing_support::PermuteLabels;
using testing_support::TemporaryFolder;

bool GoOn(int64_t, int64_t, const std::string&) { return true; }

ModelConfig Small(int64_t updates) {
  ModelConfig config;
  config.d_model = 32;
  config.layers = 1;
  config.feed_forward = 64;
  config.updates = updates;
  config.batch = 24;
  config.learning_rate = 4e-3;
  config.checkpoint_every = 10;
  return config;
}

dataset::TokensFile SmallRun(uint64_t seed, const std::string& name, double factor = 1,
                             int steps = 120) {
  return MakeTokens({.seed = seed,
                     .run_id = name,
                     .steps = steps,
                     .tokens_per_rank = 14,
                     .vocabulary = 20,
                     .run_factor = factor,
                     .slowdown = 3});
}

void TrainSmall(const TrainRequest& request, const dataset::TokensFile& train,
                const dataset::TokensFile& validation, const ProgressCall& progress = GoOn) {
  const dataset::TokensFile* const training[] = {&train};
  const dataset::TokensFile* const validating[] = {&validation};
  TrainOnRuns(request, training, validating, "inputs", progress);
}

TrainRequest RequestTo(const std::filesystem::path& output, const ModelConfig& config,
                       int64_t seed = 1) {
  TrainRequest request;
  request.output = output;
  request.config = config;
  request.seed = seed;
  return request;
}

/// Share of scored steps that are called right, and of positives whose top guess is right.
struct Scores {
  double step = 0, op = 0, rank = 0, kind = 0;
};

Scores Score(const dataset::TokensFile& run, const Predictor& predictor) {
  const auto predictions = predictor.Predict(run);
  std::size_t scored = 0;
  for (const dataset::StepTokens& step : run.steps) scored += dataset::IsScored(step.label) ? 1 : 0;
  EXPECT_LT(scored, predictions.size());
  EXPECT_EQ(predictor.Predict(run, /*scored_only=*/true).size(), scored);
  const auto kinds = predictor.kinds();
  Scores sum;
  double steps = 0, positives = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const dataset::StepLabel& label = run.steps[i].label;
    if (label.reasons != 0) continue;
    const bool abnormal = label.status == dataset::LabelStatus::kPositive;
    ++steps;
    sum.step += (predictions[i].probability > 0.5f) == abnormal;
    if (!abnormal) continue;
    ++positives;
    const auto& kind = predictions[i].kind_probability;
    const auto best = std::max_element(kind.begin(), kind.end()) - kind.begin();
    sum.kind += kinds[static_cast<std::size_t>(best)] == label.kind;
    if (predictions[i].operators.empty()) continue;
    sum.op += predictions[i].operators[0].symbol == label.culprit_symbol;
    sum.rank += predictions[i].rank_probability[Index(label.culprit_rank)] > 0.5f;
  }
  return {sum.step / steps, sum.op / positives, sum.rank / positives, sum.kind / positives};
}

TEST(TrainingTest, LearnsStepOperatorRankAndKindOnARunOfAnotherSpeed) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a", 1, 240), validation = SmallRun(2, "b", 1.3);
  TrainSmall(RequestTo(folder / "model", Small(120)), train, validation);
  const Predictor predictor(folder / "model");
  EXPECT_TRUE(predictor.manifest().calibration.fitted);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.checkpoint"));
  const Scores scores = Score(SmallRun(3, "c", 0.7), predictor);
  EXPECT_GT(scores.step, 0.9);
  EXPECT_GT(scores.op, 0.8);
  EXPECT_GT(scores.rank, 0.9);
  EXPECT_GT(scores.kind, 0.8);
}

TEST(TrainingTest, TwoTrainingsOfOneSeedPredictTheSameToTheLastBit) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a"), validation = SmallRun(2, "b");
  TrainSmall(RequestTo(folder / "one", Small(12)), train, validation);
  TrainSmall(RequestTo(folder / "two", Small(12)), train, validation);
  EXPECT_EQ(ReadFile(folder.path() / "one" / kManifestName),
            ReadFile(folder.path() / "two" / kManifestName));
  EXPECT_EQ(ReadFile(folder.path() / "one" / kWeightsName),
            ReadFile(folder.path() / "two" / kWeightsName));
  const auto one = Predictor(folder / "one").Predict(validation);
  const auto two = Predictor(folder / "two").Predict(validation);
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].score, two[i].score);
    ASSERT_EQ(one[i].kind_probability, two[i].kind_probability);
    ASSERT_EQ(one[i].operators[0].probability, two[i].operators[0].probability);
  }
}

/// Area under the ROC curve over the steps after calibration.
double AreaUnderRoc(const dataset::TokensFile& run, const Predictor& predictor) {
  std::vector<float> positive, negative;
  const auto predictions = predictor.Predict(run);
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (run.steps[i].label.reasons != 0) continue;
    const bool abnormal = run.steps[i].label.status == dataset::LabelStatus::kPositive;
    (abnormal ? positive : negative).push_back(predictions[i].score);
  }
  double above = 0;
  for (const float p : positive) {
    above += static_cast<double>(
        std::count_if(negative.begin(), negative.end(), [p](float n) { return p > n; }));
  }
  return above / static_cast<double>(positive.size() * negative.size());
}

TEST(TrainingTest, PermutedLabelsGiveChance) {
  const TemporaryFolder folder;
  auto train = SmallRun(1, "a", 1, 240), test = SmallRun(3, "c", 1, 240);
  PermuteLabels(train, 9);
  PermuteLabels(test, 10);
  TrainSmall(RequestTo(folder / "model", Small(60)), train, SmallRun(2, "b"));
  // About 90 positive and 130 negative steps: standard error .04 at chance; three of them.
  EXPECT_NEAR(AreaUnderRoc(test, Predictor(folder / "model")), 0.5, 0.12);
}

TEST(TrainingTest, AResumedTrainingHasTheLossesOfAWholeOne) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a"), validation = SmallRun(2, "b");
  TrainSmall(RequestTo(folder / "whole", Small(24)), train, validation);
  const TrainRequest request = RequestTo(folder / "parts", Small(24));
  const auto stop_at_13 = [](int64_t done, int64_t, const std::string&) { return done < 13; };
  EXPECT_THAT([&] { TrainSmall(request, train, validation, stop_at_13); },
              ThrowsMessage<Error>(HasSubstr("stopped after update 13")));
  EXPECT_FALSE(std::filesystem::exists(folder / "parts"));
  TrainSmall(request, train, validation);
  EXPECT_EQ(ReadManifest(folder / "whole").training.losses,
            ReadManifest(folder / "parts").training.losses);
  EXPECT_EQ(ReadManifest(folder / "whole").weights_hash,
            ReadManifest(folder / "parts").weights_hash);
}

TEST(TrainingTest, ACheckpointOfAnotherTrainingIsRefused) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a"), validation = SmallRun(2, "b");
  const auto stop = [](int64_t, int64_t, const std::string&) { return false; };
  EXPECT_THROW(TrainSmall(RequestTo(folder / "model", Small(12), 1), train, validation, stop),
               Error);
  TrainRequest other = RequestTo(folder / "model", Small(12), 2);
  EXPECT_THAT([&] { TrainSmall(other, train, validation); },
              ThrowsMessage<DataError>(HasSubstr("another training")));
  other.force = true;
  TrainSmall(other, train, validation);
}

TEST(TrainingTest, StopsWhereTheLossIsNotFiniteAndKeepsTheLastCheckpoint) {
  const TemporaryFolder folder;
  TrainRequest request = RequestTo(folder / "model", Small(40));
  request.config.learning_rate = 1e19;  // above what a configuration file may ask for
  request.config.checkpoint_every = 1;
  request.config.warmup = 0;
  EXPECT_THAT(
      [&] { TrainSmall(request, SmallRun(1, "a"), SmallRun(2, "b")); },
      ThrowsMessage<Error>(AllOf(HasSubstr("training diverged at update"), HasSubstr("a step "),
                                 HasSubstr("the checkpoint of update"))));
  EXPECT_FALSE(std::filesystem::exists(folder / "model"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model.checkpoint" / "checkpoint.json"));
}

TEST(TrainingTest, WithoutValidationThereIsNoProbability) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a");
  const dataset::TokensFile* const training[] = {&train};
  TrainOnRuns(RequestTo(folder / "model", Small(2)), training, {}, "inputs", GoOn);
  const auto predictions = Predictor(folder / "model").Predict(train);
  EXPECT_TRUE(std::isnan(predictions[30].probability));
  EXPECT_TRUE(std::isfinite(predictions[30].score));
}

TEST(TrainingTest, RunsOfTwoVocabulariesAreRefused) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a");
  auto validation = SmallRun(2, "b");
  validation.vocabulary_hash = "other";
  EXPECT_THAT([&] { TrainSmall(RequestTo(folder / "model", Small(2)), train, validation); },
              ThrowsMessage<DataError>(HasSubstr("run 'b': encoded with vocabulary other")));
}

/// Changes everything of one modality and asks whether predictions move.
struct Switch {
  const char* name;
  void (*off)(ModelConfig&);
  void (*change)(dataset::StepTokens&);
};

class ModalityTest : public ::testing::TestWithParam<Switch> {};

TEST_P(ModalityTest, WhatIsOffHasNoInfluenceAndWhatIsOnHas) {
  const TemporaryFolder folder;
  const auto train = SmallRun(1, "a"), validation = SmallRun(2, "b");
  auto changed = validation;
  for (auto& step : changed.steps) GetParam().change(step);
  const auto scores = [&](const std::filesystem::path& model, const dataset::TokensFile& run) {
    std::vector<float> result;
    for (const auto& prediction : Predictor(model).Predict(run)) result.push_back(prediction.score);
    return result;
  };
  TrainSmall(RequestTo(folder / "on", Small(6)), train, validation);
  EXPECT_NE(scores(folder / "on", validation), scores(folder / "on", changed));
  ModelConfig config = Small(6);
  GetParam().off(config);
  TrainSmall(RequestTo(folder / "off", config), train, validation);
  EXPECT_EQ(scores(folder / "off", validation), scores(folder / "off", changed));
}

INSTANTIATE_TEST_SUITE_P(
    All, ModalityTest,
    ::testing::Values(Switch{"Tokens", [](ModelConfig& c) { c.modalities.tokens = false; },
                             [](dataset::StepTokens& s) {
                               for (auto& token : s.tokens) {
                                 token.id = (token.id + 1) % 20;
                                 token.host_ns *= 3;
                               }
                             }},
                      Switch{"Numbers", [](ModelConfig& c) { c.modalities.numbers = false; },
                             [](dataset::StepTokens& s) { s.numbers[0] *= 2; }},
                      Switch{"Logs", [](ModelConfig& c) { c.modalities.logs = false; },
                             [](dataset::StepTokens& s) {
                               s.log_text.assign(s.log_text.size(), "WARNING slow");
                             }},
                      Switch{"Localizer", [](ModelConfig& c) { c.modalities.localizer = false; },
                             [](dataset::StepTokens& s) { s.localizer[0] += 3; }},
                      Switch{"Layer", [](ModelConfig& c) { c.attributes.layer = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].layer ^= 1; }},
                      Switch{"Rank", [](ModelConfig& c) { c.attributes.rank = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].rank ^= 1; }},
                      Switch{"Depth", [](ModelConfig& c) { c.attributes.depth = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].depth += 2; }},
                      Switch{"Parent", [](ModelConfig& c) { c.attributes.parent = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].parent_token = 1; }},
                      Switch{"Host", [](ModelConfig& c) { c.attributes.host = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].host_ns *= 2; }},
                      Switch{"Device", [](ModelConfig& c) { c.attributes.device = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].device_ns += 5000; }},
                      Switch{"Root", [](ModelConfig& c) { c.attributes.root = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].root_ns *= 2; }},
                      Switch{"Residual", [](ModelConfig& c) { c.attributes.residual = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].residual += 2; }},
                      Switch{"NodeCount", [](ModelConfig& c) { c.attributes.node_count = false; },
                             [](dataset::StepTokens& s) { s.tokens[3].node_count = 1; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ModelFolderTest, ChangedAbsentOrDamagedFilesAreOneClearError) {
  const TemporaryFolder folder;
  TrainSmall(RequestTo(folder / "model", Small(2)), SmallRun(1, "a"), SmallRun(2, "b"));
  const auto open = [&] { Predictor predictor(folder / "model"); };
  const auto path = folder / "model" / kManifestName;
  const std::string manifest = ReadFile(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    WriteFileAtomically(path, text.replace(at, from.size(), to), true);
  };
  open();
  with("\"schema_version\":\"1.0\"", "\"schema_version\":\"2.0\"");
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("schema version '2.0'")));
  with("\"vocabulary_size\":20", "\"vocabulary_size\":21");
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("one entry a vocabulary entry")));
  with("\"d_model\":32", "\"d_model\":1024");
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("smaller than the configuration needs")));
  WriteFileAtomically(path, manifest.substr(0, manifest.size() / 2), true);
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("damaged")));
  WriteFileAtomically(path, manifest, true);
  const auto weights = folder / "model" / kWeightsName;
  std::string bytes = ReadFile(weights);
  bytes[bytes.size() / 2] ^= 1;
  WriteFileAtomically(weights, bytes, true);
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("weights.pt is not the file")));
  std::filesystem::remove(path);
  EXPECT_THAT(open, ThrowsMessage<DataError>(HasSubstr("no such model")));
}

TEST(LearningRateTest, WarmsUpThenFallsToATwentieth) {
  ModelConfig config;
  config.learning_rate = 1;
  config.warmup = 10;
  config.updates = 110;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 60), 0.525);  // halfway: .05 + .95 / 2
  EXPECT_DOUBLE_EQ(LearningRate(config, 110), 0.05);
}

}  // namespace
}  // namespace teller::model
