#include "src/experiment/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/experiment/experiment_config.h"
#include "src/trace/trace_file.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kSmoke = fs::path(TELLER_SOURCE_DIR) / "experiments" / "smoke.yaml";

class CampaignTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("teller-campaign-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::set<std::string> SharedMemory() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("teller-campaigntest")) names.insert(name);
    }
    return names;
  }

  fs::path folder_;
};

TEST_F(CampaignTest, PlansAreFixedBySeedAndASetShareHasClockOffsets) {
  const ExperimentConfig config = LoadExperiment(kSmoke);
  const auto plans = PlanRuns(*config.campaign);
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_EQ(plans[2].config_yaml, PlanRuns(*config.campaign)[2].config_yaml);
  EXPECT_NE(plans[0].config_yaml, plans[1].config_yaml);
  int offset = 0;
  for (const RunPlan& plan : plans) offset += plan.clock_offset_ns != 0 ? 1 : 0;
  EXPECT_EQ(offset, 1);  // a quarter of four
  // The configuration of a run reads back as YAML.
  EXPECT_EQ(config::Node::Parse(plans[0].config_yaml, "run").Get("run").AsInt(), 0);
}

TEST_F(CampaignTest, RecordsARunFolderAndLeavesNothingBehind) {
  const std::vector<std::string> overrides = {"campaign.faults.duration_s=3"};
  const ExperimentConfig config = LoadExperiment(kSmoke, overrides);
  try {
    CheckCampaignAvailable(*config.campaign);
  } catch (const UnavailableError& error) {
    GTEST_SKIP() << error.what();
  }
  const RunPlan plan = PlanRuns(*config.campaign)[0];
  fs::create_directories(folder_);
  RecordRun(*config.campaign, plan, "campaigntest" + std::to_string(::getpid()), folder_,
            [](double, const std::string&) {});
  for (const char* name : {"config.yaml", "manifest.yaml", "trace.h5", "truth.jsonl", "load.jsonl",
                           "logs/node0.stdout.log", "logs/node1.stdout.log"}) {
    EXPECT_TRUE(fs::is_regular_file(folder_ / name)) << name;
  }
  EXPECT_THAT(ReadFile(folder_ / "truth.jsonl"), HasSubstr("\"footer\""));
  EXPECT_THAT(ReadFile(folder_ / "manifest.yaml"), HasSubstr("\"trace.h5\": {bytes: "));
  const config::Node manifest = config::Node::Load(folder_ / "manifest.yaml");
  EXPECT_EQ(manifest.Get("seed").AsInt(), static_cast<int64_t>(plan.faults.seed));

  const trace::TraceReader trace(folder_ / "trace.h5");
  EXPECT_TRUE(trace.complete());
  std::set<RankId> ranks;
  for (const trace::ProcessInfo& process : trace.processes()) ranks.insert(process.rank);
  EXPECT_TRUE(ranks.contains(RankId{0}));
  EXPECT_TRUE(ranks.contains(RankId{1}));
  EXPECT_TRUE(SharedMemory().empty());
}

}  // namespace
}  // namespace teller::experiment
