#include "src/experiment/data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/core/error.h"
#include "src/experiment/experiment_config.h"
#include "src/experiment/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {
using ::testing::HasSubstr;

/// 100 calibration steps, then healthy time and two stretches of 50.
dataset::StepsFile TwoStretches() {
  dataset::StepsFile run;
  for (int i = 0; i < 400; ++i) {
    dataset::StepLabel label;
    if (i < 100) label.reasons = dataset::kReasonCalibration;
    if (i >= 150 && i < 200) label.stretch = 0;
    if (i >= 300 && i < 350) label.stretch = 1;
    run.labels.push_back(label);
    run.forest.push_back(1);
  }
  return run;
}

int64_t Kept(const std::vector<uint8_t>& keep, std::size_t from, std::size_t to) {
  return std::count(keep.begin() + static_cast<std::ptrdiff_t>(from),
                    keep.begin() + static_cast<std::ptrdiff_t>(to), uint8_t{1});
}

TEST(ChooseForestsTest, SharesOutBlocksOverStretchesHealthyTimeAndCalibration) {
  const auto keep = ChooseForests(TwoStretches(), {.faulty = 40, .healthy = 50, .calibration = 20});
  EXPECT_EQ(Kept(keep, 0, 100), 20);
  EXPECT_EQ(Kept(keep, 150, 200), 20);
  EXPECT_EQ(Kept(keep, 300, 350), 20);
  EXPECT_EQ(Kept(keep, 0, 400), 110);
  // Blocks of five in a row: no kept step is alone. (Blocks of healthy time may have a stretch
  // inside, so they are looked at on either side of it.)
  for (std::size_t i = 1; i + 1 < keep.size(); ++i) {
    if (keep[i]) {
      EXPECT_TRUE(keep[i - 1] || keep[i + 1] || i == 149 || i == 200 || i == 299 || i == 350) << i;
    }
  }
}

TEST(ChooseForestsTest, KeepsNoMoreThanThereIs) {
  const auto keep =
      ChooseForests(TwoStretches(), {.faulty = 10'000, .healthy = 10'000, .calibration = 7});
  EXPECT_EQ(Kept(keep, 0, 100), 10);  // two blocks
  EXPECT_EQ(Kept(keep, 150, 200), 50);
  EXPECT_EQ(Kept(keep, 200, 300), 100);
}

class PublishedSetTest : public ::testing::Test {
 protected:
  PublishedRun AddRun(const std::string& role) {
    PublishedRun run{.file = role + ".h5.xz",
                     .run_id = "id-" + role,
                     .engine = "vllm",
                     .role = role,
                     .steps = 10,
                     .forests = 5,
                     .positive = 2,
                     .bytes = 4,
                     .hash = "00"};
    std::ofstream(folder_ / run.file) << "four";
    set_.runs.push_back(run);
    return run;
  }

  testing_support::TemporaryFolder folder_;
  PublishedSet set_{.folder = folder_.path(), .name = "tiny", .runs = {}};
};

TEST_F(PublishedSetTest, ManifestIsReadAsWrittenAndFixesTheRoles) {
  for (const char* role : {"train", "unseen_kind", "test", "validation"}) AddRun(role);
  WriteManifest(set_, {"train.h5.xz: run00 of campaign"});
  const PublishedSet found = ReadPublishedSet(folder_.path());
  EXPECT_EQ(found.name, "tiny");
  ASSERT_EQ(found.runs.size(), 4u);
  EXPECT_EQ(found.runs[1].role, "unseen_kind");
  EXPECT_EQ(found.runs[3].run_id, "id-validation");
  EXPECT_EQ(found.runs[3].forests, 5);
  ASSERT_EQ(found.MainRuns().size(), 3u);
  std::ofstream(folder_ / "x.yaml")
      << "schema_version: 1\nfrom: .\nvocabulary: {main: {size: 64}}\n";
  const ExperimentConfig config = LoadExperiment(folder_ / "x.yaml");
  const RunRoles roles = AssignRoles(config, 3);
  EXPECT_EQ(roles.train, std::vector<std::size_t>{0});
  EXPECT_EQ(roles.test, std::vector<std::size_t>{1});
  EXPECT_EQ(roles.validation, std::vector<std::size_t>{2});
}

TEST_F(PublishedSetTest, MissingFilesAndRolesAreNamed) {
  AddRun("unseen_kind");
  WriteManifest(set_, {"x"});
  const auto message = [&] {
    try {
      ReadPublishedSet(folder_.path());
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message(), HasSubstr("no run trains"));
  std::ofstream(folder_ / "unseen_kind.h5.xz") << "longer than four";
  EXPECT_THAT(message(), HasSubstr("not of 4 bytes"));
}

}  // namespace
}  // namespace teller::experiment
