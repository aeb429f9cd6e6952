// The whole experiment on synthetic steps: every stage but the recording of runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/steps_file.h"
#include "src/experiment/run_experiment.h"
#include "tests/support/forest_generator.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;
using testing_support::DelayPlace;
using testing_support::InjectedDelay;

InjectedDelay Delay(int stretch, const std::string& kind, const std::string& symbol, int rank) {
  const bool is_collective = kind == "collective_delay";
  const int first = 50 + stretch * 20;
  return {.first_step = first,
          .last_step = first + 10,
          .rank = RankId{rank},
          .symbol = symbol,
          .delay_ns = 300'000,
          .place = DelayPlace::kInside,
          .stretch = stretch,
          .kind = kind,
          .family = is_collective ? "communication" : "kernel",
          .level = 2 + stretch % 4};
}

dataset::StepsFile MakeRun(int index) {
  testing_support::ForestOptions options{.seed = static_cast<uint64_t>(100 + index),
                                         .run_id = "run" + std::to_string(index),
                                         .steps = 170,
                                         .layers = 1,
                                         .run_scale = 1 + .1 * index,
                                         .calibration_steps = 40};
  for (int stretch = 0; stretch < 6; ++stretch) {
    const bool collective = (stretch + index) % 2 == 0;
    options.delays.push_back(Delay(stretch, collective ? "collective_delay" : "operator_slowdown",
                                   collective ? "all_reduce" : "linear", (stretch / 2) % 2));
  }
  return testing_support::GenerateRun(options);
}

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string steps;
    for (int i = 0; i < 4; ++i) {
      const fs::path path = folder_ / ("run" + std::to_string(i) + ".h5");
      dataset::WriteSteps(path, MakeRun(i));
      steps += "  - " + path.string() + "\n";
    }
    std::ofstream(folder_ / "tiny.yaml")
        << "schema_version: 1\nsteps:\n"
        << steps
        << "split: {validation: 1, test: 1}\n"
           "vocabulary:\n"
           "  main: {mode: structural, size: 64}\n"
           "  sweep:\n"
           "    - {mode: structural, sizes: [64], inputs: [tokens, full]}\n"
           "    - {mode: adjacency, sizes: [64], inputs: [tokens]}\n"
           "seeds: [1]\n"
           "model: {d_model: 16, layers: 1, heads: 2, feed_forward: 32, length: 64, "
           "updates: 20, warmup: 2, batch: 16}\n";
  }

  RunExperimentOptions Options() const {
    return {.config = folder_ / "tiny.yaml", .output = folder_ / "results", .jobs = 2};
  }
  static std::string Dump(const MetricsFile& metrics) {
    std::string text;
    for (const Cell& cell : metrics.cells) text += ToJson(cell).dump() + "\n";
    return text;
  }
  static const Cell* Find(const MetricsFile& metrics, const std::string& table,
                          const std::string& metric, const nlohmann::ordered_json& keys) {
    for (const Cell& cell : metrics.cells) {
      bool fits = cell.table == table && cell.metric == metric;
      for (const auto& [key, value] : keys.items())
        fits = fits && cell.row.value(key, nlohmann::ordered_json()) == value;
      if (fits) return &cell;
    }
    return nullptr;
  }

  testing_support::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(PipelineTest, FillsTheTablesOnceAndTheSameAgain) {
  const ExperimentResult first = RunExperiment(Options());
  EXPECT_EQ(first.cached, 0);
  EXPECT_TRUE(fs::is_regular_file(first.report));
  for (const char* table : {"E0", "E1", "E1_kinds", "E2", "E2_kinds", "E2_priors", "E3"}) {
    const bool found = std::any_of(
        first.metrics.cells.begin(), first.metrics.cells.end(),
        [&](const Cell& cell) { return cell.table == table && cell.value.has_value(); });
    EXPECT_TRUE(found) << table;
  }
  // Step times of delayed steps are longer by 300 us and more: one threshold finds them.
  const Cell* step_time =
      Find(first.metrics, "E2", "pr_auc",
           {{"method", "step time / bucket median"}, {"view", "combined"}, {"levels", "2-5"}});
  ASSERT_NE(step_time, nullptr);
  EXPECT_GT(*step_time->value, .6);
  const Cell* dummy =
      Find(first.metrics, "E2", "pr_auc",
           {{"method", "always positive"}, {"view", "combined"}, {"levels", "2-5"}});
  EXPECT_NEAR(*dummy->value, .43, 1e-9);  // the prior that the row stands at

  const ExperimentResult second = RunExperiment(Options());
  EXPECT_EQ(second.made, 0);
  EXPECT_EQ(Dump(second.metrics), Dump(first.metrics));

  // The same seed gives the same tables to the last digit when every training is done again.
  fs::remove_all(folder_ / "results" / "models");
  fs::remove_all(folder_ / "results" / "predictions");
  fs::remove_all(folder_ / "results" / "metrics");
  const ExperimentResult third = RunExperiment(Options());
  EXPECT_GT(third.made, 0);
  EXPECT_EQ(Dump(third.metrics), Dump(first.metrics));

  const DryRun dry = PlanExperiment(Options());
  EXPECT_EQ(dry.open_cost_s, 0);
  EXPECT_FALSE(LoadResults(Options()).metrics.cells.front().stale);
  RunExperimentOptions changed = Options();
  changed.overrides = {"model.updates=21"};
  EXPECT_TRUE(LoadResults(changed).metrics.cells.front().stale);
}

TEST_F(PipelineTest, RefusesARunThatStandsInTwoParts) {
  fs::copy_file(folder_ / "run0.h5", folder_ / "run3.h5", fs::copy_options::overwrite_existing);
  try {
    RunExperiment(Options());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("split leaks"));
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
  }
}

TEST_F(PipelineTest, SaysWhatToRunFirst) {
  try {
    LoadResults(Options());
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("run 'teller run"));
  }
  fs::remove(folder_ / "run1.h5");
  EXPECT_THROW(RunExperiment(Options()), ConfigError);
}

}  // namespace
}  // namespace teller::experiment
