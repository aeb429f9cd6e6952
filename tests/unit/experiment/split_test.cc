#include "src/experiment/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/core/error.h"

namespace teller::experiment {
namespace {
using ::testing::HasSubstr;

std::vector<RunIdentity> Runs(int count) {
  std::vector<RunIdentity> runs;
  for (int i = 0; i < count; ++i)
    runs.push_back({"run" + std::to_string(i), "content" + std::to_string(i)});
  return runs;
}

std::string MessageOf(const Split& split, const std::vector<RunIdentity>& runs) {
  try {
    CheckSplit(split, runs);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(SplitTest, EveryRunStandsInOnePart) {
  const Split split = DrawSplit(Runs(12), {.validation = 2, .test = 4}, 7);
  EXPECT_EQ(split.train.size(), 6u);
  EXPECT_EQ(split.validation.size(), 2u);
  EXPECT_EQ(split.test.size(), 4u);
  std::vector<std::string> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(SplitTest, DependsOnTheSeedAndNotOnTheOrderOfRuns) {
  std::vector<RunIdentity> runs = Runs(12);
  const Split split = DrawSplit(runs, {}, 7);
  std::reverse(runs.begin(), runs.end());
  EXPECT_EQ(DrawSplit(runs, {}, 7).test, split.test);
  EXPECT_NE(DrawSplit(runs, {}, 8).test, split.test);
}

TEST(SplitTest, NeedsRunsToTrainOn) {
  EXPECT_THROW(DrawSplit(Runs(6), {.validation = 2, .test = 4}, 1), ConfigError);
}

TEST(SplitTest, RefusesLeaks) {
  const Split good{.train = {"run0"}, .validation = {"run1"}, .test = {"run2"}};
  EXPECT_EQ(MessageOf(good, Runs(3)), "");
  Split twice = good;
  twice.test.push_back("run0");
  EXPECT_THAT(MessageOf(twice, Runs(3)),
              HasSubstr("split leaks: run run0 (train) and run run0 (test)"));
  std::vector<RunIdentity> copied = Runs(3);
  copied[2].content = copied[0].content;
  EXPECT_THAT(MessageOf(good, copied),
              HasSubstr("split leaks: run run0 (train) and run run2 (test) hold the same data"));
  EXPECT_THAT(MessageOf(good, Runs(2)), HasSubstr("run run2 (test) is not there"));
  EXPECT_THAT(MessageOf({.train = {"run0"}, .test = {"run1"}}, Runs(2)),
              HasSubstr("'validation' has no run"));
}

TEST(SplitTest, ReadsWhatItWrote) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("teller-split-" + std::to_string(::getpid()) + ".json");
  const Split split = DrawSplit(Runs(12), {}, 7);
  WriteSplit(path, split);
  EXPECT_EQ(ReadSplit(path).validation, split.validation);
  std::ofstream(path) << "{}";
  EXPECT_THROW(ReadSplit(path), DataError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace teller::experiment
