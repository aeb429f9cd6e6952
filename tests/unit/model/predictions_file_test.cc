#include "src/dataset/predictions_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::TemporaryFolder;

PredictionsFile Example() {
  PredictionsFile file{"ours", 3, {"delay", "unknown"}, {}};
  file.steps.push_back({"run1",
                        5,
                        1.5f,
                        0.8f,
                        {0.7f, 0.3f},
                        {{RankId{1}, "linear", NodeId{12}, 0.6f}, {}},
                        {0.1f, 0.9f},
                        "why"});
  file.steps.push_back({"run1", 6, -1.0f, std::numeric_limits<float>::quiet_NaN(), {}, {}, {}, ""});
  file.steps.push_back(
      {"run2", 0, 0.0f, 0.5f, {0, 1}, {{RankId{0}, "linear", NodeId{3}, 1.0f}}, {1.0f}, ""});
  return file;
}

TEST(PredictionsFileTest, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  WritePredictions(folder / "p.h5", Example());
  const PredictionsFile read = ReadPredictions(folder / "p.h5");
  EXPECT_EQ(read.method, "ours");
  EXPECT_EQ(read.seed, 3);
  EXPECT_THAT(read.kinds, ElementsAre("delay", "unknown"));
  ASSERT_EQ(read.steps.size(), 3);
  EXPECT_EQ(read.steps[0].run_id, "run1");
  EXPECT_EQ(read.steps[0].engine_step, 5);
  EXPECT_THAT(read.steps[0].kind_probability, ElementsAre(0.7f, 0.3f));
  ASSERT_EQ(read.steps[0].operators.size(), 2);
  EXPECT_EQ(read.steps[0].operators[0].symbol, "linear");
  EXPECT_EQ(read.steps[0].operators[0].rank, RankId{1});
  EXPECT_EQ(read.steps[0].operators[0].node, NodeId{12});
  EXPECT_EQ(read.steps[0].operators[1].symbol, "");  // no operator
  EXPECT_EQ(read.steps[0].explanation, "why");
  EXPECT_TRUE(std::isnan(read.steps[1].probability));
  EXPECT_TRUE(read.steps[1].kind_probability.empty());
  EXPECT_EQ(read.steps[2].run_id, "run2");
  EXPECT_THAT(read.steps[2].rank_probability, ElementsAre(1.0f));
}

TEST(PredictionsFileTest, KeepsAFileWithoutSteps) {
  const TemporaryFolder folder;
  WritePredictions(folder / "p.h5", {"ours", 0, {"unknown"}, {}});
  EXPECT_TRUE(ReadPredictions(folder / "p.h5").steps.empty());
}

TEST(PredictionsFileTest, OverwritesOnlyWhenForced) {
  const TemporaryFolder folder;
  WritePredictions(folder / "p.h5", Example());
  EXPECT_THROW(WritePredictions(folder / "p.h5", Example()), ConfigError);
  WritePredictions(folder / "p.h5", Example(), true);
}

TEST(PredictionsFileTest, AFileThatIsNotOursIsOneClearError) {
  const TemporaryFolder folder;
  WriteFileAtomically(folder / "p.h5", "not hdf5");
  EXPECT_THROW(ReadPredictions(folder / "p.h5"), DataError);
  EXPECT_THROW(ReadPredictions(folder / "absent.h5"), DataError);
}

}  // namespace
}  // namespace teller::dataset
