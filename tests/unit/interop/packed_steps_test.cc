#include "src/interop/packed_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/forest_generator.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

using dataset::StepsFile;
using reconstruct::StepForest;
using reconstruct::StepNode;

TEST(RoundTimeTest, IsWithinHalfAPercentAndKeepsSignAndZero) {
  EXPECT_EQ(RoundTime(0), 0);
  EXPECT_EQ(RoundTime(1), 1);
  EXPECT_EQ(RoundTime(-1), -1);
  for (const int64_t ns : {int64_t{1000}, int64_t{54'321}, int64_t{7'654'321}, int64_t{1} << 55}) {
    EXPECT_NEAR(static_cast<double>(RoundTime(ns)), static_cast<double>(ns),
                0.00501 * static_cast<double>(ns));
    EXPECT_EQ(RoundTime(RoundTime(ns)), RoundTime(ns));
    EXPECT_EQ(RoundTime(-ns), -RoundTime(ns));
  }
}

class PackedStepsTest : public ::testing::Test {
 protected:
  StepsFile RoundTrip(const StepsFile& run, const std::vector<uint8_t>& keep) {
    WritePackedSteps(folder_ / "run.h5.xz", run, keep);
    UnpackSteps(folder_ / "run.h5.xz", folder_ / "steps.h5");
    return dataset::ReadSteps(folder_ / "steps.h5");
  }

  testing_support::TemporaryFolder folder_;
};

void ExpectSameNodes(const StepForest& step, const StepForest& expected) {
  ASSERT_EQ(step.nodes.size(), expected.nodes.size());
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const StepNode &node = step.nodes[i], &wanted = expected.nodes[i];
    EXPECT_EQ(node.symbol, wanted.symbol);
    EXPECT_EQ(node.parent, wanted.parent);
    EXPECT_EQ(node.begin_ns, wanted.begin_ns);
    EXPECT_EQ(node.duration_ns, wanted.duration_ns);
    EXPECT_EQ(node.host_self_ns, wanted.host_self_ns);
    EXPECT_EQ(node.device_busy_ns, wanted.device_busy_ns);
    EXPECT_EQ(node.gap_before_ns, wanted.gap_before_ns);
    EXPECT_EQ(node.sequence, wanted.sequence);
  }
}

/// What StepForest promises of times, and how far they are from the exact ones.
void ExpectCloseAndWhole(const StepForest& step, const StepForest& exact) {
  std::vector<int64_t> self_ns(step.tracks.size()), root_ns(step.tracks.size());
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const StepNode& node = step.nodes[i];
    const double root = static_cast<double>(exact.nodes[i].duration_ns + exact.nodes[i].begin_ns);
    EXPECT_NEAR(static_cast<double>(node.begin_ns), static_cast<double>(exact.nodes[i].begin_ns),
                2 + 0.01 * std::abs(root));
    self_ns[node.track] += node.host_self_ns;
    if (node.parent == kNoNode) {
      root_ns[node.track] = node.duration_ns;
      continue;
    }
    const StepNode& parent = step.nodes[Index(node.parent)];
    EXPECT_GE(node.begin_ns, parent.begin_ns);
    EXPECT_LE(node.begin_ns + node.duration_ns, parent.begin_ns + parent.duration_ns);
  }
  for (std::size_t track = 0; track < step.tracks.size(); ++track) {
    if (!step.tracks[track].device) {
      EXPECT_EQ(self_ns[track], root_ns[track]);
    }
  }
}

TEST_F(PackedStepsTest, UnpackingGivesTheRoundedForests) {
  for (const bool device : {true, false}) {
    SCOPED_TRACE(device);
    const StepsFile run = testing_support::GenerateRun({.seed = 3, .steps = 30, .device = device});
    std::filesystem::remove(folder_ / "run.h5.xz");
    std::filesystem::remove(folder_ / "steps.h5");
    const StepsFile found = RoundTrip(run, std::vector<uint8_t>(run.labels.size(), 1));
    ASSERT_EQ(found.run.steps.size(), run.run.steps.size());
    for (std::size_t i = 0; i < found.run.steps.size(); ++i) {
      StepForest rounded = run.run.steps[i];
      RoundForest(rounded);
      ExpectSameNodes(found.run.steps[i], rounded);
      ExpectCloseAndWhole(found.run.steps[i], run.run.steps[i]);
      EXPECT_EQ(found.run.steps[i].end_ns, run.run.steps[i].end_ns);
      EXPECT_EQ(found.labels[i].status, run.labels[i].status);
      EXPECT_EQ(found.labels[i].hit_nodes, run.labels[i].hit_nodes);
      for (std::size_t k = 0; k < run.numbers[i].size(); ++k) {
        EXPECT_NEAR(found.numbers[i][k], run.numbers[i][k],
                    0.002 * std::abs(run.numbers[i][k]) + 1e-9);
      }
    }
  }
}

TEST_F(PackedStepsTest, StepsThatAreNotKeptHaveLabelAndNumbersOnly) {
  StepsFile run = testing_support::GenerateRun({.seed = 4, .steps = 60});
  run.run.steps[0].requests = {"secret-id"};
  std::vector<uint8_t> keep(60, 0);
  for (std::size_t i = 10; i < 15; ++i) keep[i] = 1;
  const StepsFile found = RoundTrip(run, keep);
  EXPECT_EQ(found.forest, keep);
  EXPECT_TRUE(found.run.steps[0].nodes.empty());
  EXPECT_TRUE(found.run.steps[0].requests.empty());
  EXPECT_EQ(found.run.steps[12].nodes.size(), run.run.steps[12].nodes.size());
  EXPECT_EQ(found.numbers.size(), 60u);
  EXPECT_EQ(found.number_names, run.number_names);
  EXPECT_EQ(found.labels[30].recorded_ns, run.labels[30].recorded_ns);
  UnpackSteps(folder_ / "run.h5.xz", folder_ / "forests.h5", Unpack::kForests);
  const StepsFile forests = dataset::ReadSteps(folder_ / "forests.h5");
  ASSERT_EQ(forests.run.steps.size(), 5u);
  EXPECT_EQ(forests.run.steps[2].engine_step, run.run.steps[12].engine_step);
  EXPECT_EQ(forests.labels[2].status, run.labels[12].status);
  EXPECT_EQ(forests.run.steps[2].nodes.size(), run.run.steps[12].nodes.size());
}

TEST_F(PackedStepsTest, PacksToAFractionOfTheStepsFile) {
  const StepsFile run = testing_support::GenerateRun({.seed = 5, .steps = 100});
  dataset::WriteSteps(folder_ / "plain.h5", run);
  WritePackedSteps(folder_ / "run.h5.xz", run, std::vector<uint8_t>(100, 1));
  EXPECT_LT(std::filesystem::file_size(folder_ / "run.h5.xz"),
            std::filesystem::file_size(folder_ / "plain.h5") / 2);
}

TEST_F(PackedStepsTest, DamagedFilesAreRefusedAndNothingIsOverwritten) {
  const StepsFile run = testing_support::GenerateRun({.seed = 6, .steps = 10});
  WritePackedSteps(folder_ / "run.h5.xz", run, std::vector<uint8_t>(10, 1));
  EXPECT_THROW(WritePackedSteps(folder_ / "run.h5.xz", run, std::vector<uint8_t>(10, 1)),
               ConfigError);
  std::filesystem::resize_file(folder_ / "run.h5.xz",
                               std::filesystem::file_size(folder_ / "run.h5.xz") / 2);
  EXPECT_THROW(UnpackSteps(folder_ / "run.h5.xz", folder_ / "steps.h5"), DataError);
  std::ofstream(folder_ / "text.h5.xz") << "no such thing";
  EXPECT_THROW(UnpackSteps(folder_ / "text.h5.xz", folder_ / "steps.h5"), DataError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "steps.h5"));
}

}  // namespace
}  // namespace teller::interop
