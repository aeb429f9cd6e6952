#include "src/experiment/experiment_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/core/error.h"
#include "src/experiment/campaign.h"
#include "src/experiment/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {
using ::testing::HasSubstr;

constexpr const char* kSteps =
    "schema_version: 1\n"
    "steps: [a.h5, b.h5, c.h5, d.h5]\n"
    "split: {validation: 1, test: 1}\n"
    "vocabulary:\n"
    "  main: {mode: structural, cut: 0.84}\n"
    "  sweep:\n"
    "    - {mode: structural, cuts: [0.5, 0.84], sizes: [64], inputs: [tokens, full]}\n"
    "    - {mode: adjacency, sizes: [64], inputs: [tokens]}\n"
    "model: {updates: 10}\n"
    "scales:\n"
    "  small: {seeds: [7], model: {updates: 20}}\n";

class ExperimentConfigTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& text) {
    const auto path = folder_ / "tiny.yaml";
    std::ofstream(path) << text;
    return path;
  }
  std::string MessageOf(const std::string& text, const std::vector<std::string>& overrides = {},
                        const std::string& scale = {}) {
    try {
      LoadExperiment(Write(text), overrides, scale);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(ExperimentConfigTest, ReadsVocabulariesBySizeAndByCut) {
  const ExperimentConfig config = LoadExperiment(Write(kSteps));
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.main.Name(), "structural cut 0.84");
  ASSERT_EQ(config.sweep.size(), 7u);  // three vocabularies with two inputs, one with one
  EXPECT_EQ(config.sweep[4].vocabulary.Name(), "structural 64");
  EXPECT_EQ(config.Vocabularies().size(), 4u);  // the main one is in the sweep
  EXPECT_EQ(config.model.updates, 10);
  EXPECT_EQ(config.seeds, (std::vector<int64_t>{1, 2}));
}

TEST_F(ExperimentConfigTest, AScaleIsLaidOverTheFileAndOverridesOverBoth) {
  const std::vector<std::string> overrides = {"model.updates=30"};
  const ExperimentConfig small = LoadExperiment(Write(kSteps), {}, "small");
  EXPECT_EQ(small.seeds, (std::vector<int64_t>{7}));
  EXPECT_EQ(small.model.updates, 20);
  EXPECT_EQ(LoadExperiment(Write(kSteps), overrides, "small").model.updates, 30);
  EXPECT_THAT(MessageOf(kSteps, {}, "huge"), HasSubstr("no scale 'huge'"));
}

TEST_F(ExperimentConfigTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(MessageOf(kSteps, {"sead=1"}),
              HasSubstr("sead: unknown key; did you mean \"seeds\"?"));
  EXPECT_THAT(MessageOf(kSteps, {"split.tests=1"}),
              HasSubstr("split.tests: unknown key; did you mean \"test\"?"));
  EXPECT_THAT(MessageOf(kSteps, {"model.updats=1"}), HasSubstr("did you mean \"updates\"?"));
  EXPECT_THAT(MessageOf(kSteps, {"vocabulary.main.mode=strctural"}),
              HasSubstr("did you mean \"structural\"?"));
  EXPECT_THAT(MessageOf(kSteps, {"vocabulary.main.size=64"}),
              HasSubstr("either \"size\" or \"cut\""));
  EXPECT_THAT(MessageOf(kSteps, {"vocabulary.sweep.0.cuts=[1.5]"}),
              HasSubstr("from 0.01 to 0.9999"));
  EXPECT_THAT(MessageOf(kSteps, {"steps=[]"}), HasSubstr("one of \"campaign\""));
  EXPECT_THAT(MessageOf(kSteps, {"name=../up"}), HasSubstr("must be a plain folder name"));
  EXPECT_THAT(MessageOf(kSteps, {"seeds=[]"}), HasSubstr("at least one seed"));
}

TEST_F(ExperimentConfigTest, RolesAreFixedBySeedAndDisjoint) {
  const ExperimentConfig config = LoadExperiment(Write(kSteps));
  const RunRoles roles = AssignRoles(config, 12);
  EXPECT_EQ(roles.train.size(), 10u);
  EXPECT_EQ(roles.InOrder().size(), 12u);
  EXPECT_EQ(roles.test, AssignRoles(config, 12).test);
  EXPECT_THROW(AssignRoles(config, 2), ConfigError);
}

constexpr const char* kFaultsOnly =
    "schema_version: 1\n"
    "campaign:\n"
    "  runs: 2\n"
    "  workload: {kind: reference, model: {name: x}, parallel: {tensor: 2}}\n"
    "  faults: {faults: [{kind: process_pause}]}\n"
    "  restarts: 3\n"
    "  configuration:\n"
    "    - kind: batch_cap\n"
    "      magnitude: {max_requests: 2}\n"
    "      workload: {kind: reference, model: {name: x}, engine: {max_requests: 2}}\n";

TEST_F(ExperimentConfigTest, WithoutVocabularyThereAreOnlyRunsTheirStepsAndOneTable) {
  const Pipeline pipeline =
      BuildPipeline(LoadExperiment(Write(kFaultsOnly)),
                    [](const std::string&) { return std::optional<double>(); });
  // Two runs of the schedule, then three healthy restarts and three with the cap.
  EXPECT_EQ(pipeline.runs.size(), 8u);
  EXPECT_EQ(pipeline.plan.stages.size(), 8u + 8u + 1u);
  EXPECT_EQ(pipeline.plan.At(pipeline.metrics).inputs.size(), 16u);
}

TEST_F(ExperimentConfigTest, ConfigurationRunsAreMatchedByTheirRequests) {
  const auto plans = PlanRuns(*LoadExperiment(Write(kFaultsOnly)).campaign);
  ASSERT_EQ(plans.size(), 8u);
  for (std::size_t restart = 0; restart < 3; ++restart) {
    const RunPlan &healthy = plans[2 + 2 * restart], &capped = plans[3 + 2 * restart];
    EXPECT_TRUE(healthy.faults.faults.empty());
    EXPECT_EQ(capped.faults.faults.at(0).kind, "batch_cap");
    EXPECT_EQ(capped.faults.faults.at(0).magnitude.at("max_requests"), 2);
    EXPECT_EQ(healthy.load_seed, capped.load_seed);
    EXPECT_NE(healthy.load_seed, plans[0].load_seed);
    EXPECT_NE(healthy.config_yaml, capped.config_yaml);
  }
}

}  // namespace
}  // namespace teller::experiment
