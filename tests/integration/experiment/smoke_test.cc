// The main job end to end, on live processes, at its smallest: record, rebuild, label, encode,
// train, score, print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/core/error.h"
#include "src/experiment/campaign.h"
#include "src/experiment/report.h"
#include "src/experiment/run_experiment.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;

TEST(SmokeTest, FillsEveryTableFromLiveRunsAndPrintsThemAgain) {
  const testing_support::TemporaryFolder folder;
  const RunExperimentOptions options{
      .config = fs::path(TELLER_SOURCE_DIR) / "experiments" / "smoke.yaml",
      .output = folder / "results",
      .jobs = 2};
  try {
    CheckCampaignAvailable(*LoadExperiment(options.config).campaign);
  } catch (const UnavailableError& error) {
    GTEST_SKIP() << error.what();
  }
  const ExperimentResult first = RunExperiment(options);
  const std::string text = TextReport(first.metrics);
  for (const char* title :
       {"E0. Leak controls", "E1. Data", "E2. Main comparison", "E3. The trade-off"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(title));
  }
  const auto number = [&](const char* table, const char* metric) {
    return std::any_of(
        first.metrics.cells.begin(), first.metrics.cells.end(), [&](const Cell& cell) {
          return cell.table == table && cell.metric == metric && cell.value.has_value();
        });
  };
  EXPECT_TRUE(number("E0", "value"));
  EXPECT_TRUE(number("E1", "positive"));
  EXPECT_TRUE(number("E2", "f1"));
  EXPECT_TRUE(number("E3", "compression"));
  const ExperimentResult second = RunExperiment(options);
  EXPECT_EQ(second.made, 0);
  EXPECT_EQ(TextReport(second.metrics), text);
}

}  // namespace
}  // namespace teller::experiment
