#include "src/workload/load/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::load {
namespace {

std::vector<Arrival> All(const ArrivalOptions& options) {
  Arrivals arrivals(options);
  std::vector<Arrival> all;
  while (const auto arrival = arrivals.Next()) all.push_back(*arrival);
  return all;
}

TEST(ArrivalsTest, AClosedLoopHasNoTimesAndLengthsInRange) {
  const auto all = All({.prompt = {3, 5}, .output = {7, 7}, .requests = 50});
  ASSERT_EQ(all.size(), 50u);
  for (const Arrival& arrival : all) {
    EXPECT_EQ(arrival.offset_ns, 0);
    EXPECT_GE(arrival.prompt_tokens, 3);
    EXPECT_LE(arrival.prompt_tokens, 5);
    EXPECT_EQ(arrival.output_tokens, 7);
  }
}

TEST(ArrivalsTest, PoissonArrivalsHaveTheRateAndAreReproducible) {
  const ArrivalOptions options = {.seed = 3, .requests = 4000, .rate_per_s = 100};
  const auto all = All(options), again = All(options);
  // 4000 gaps of mean 10 ms: 40 s, deviation sqrt(4000) * 10 ms = .63 s.
  EXPECT_NEAR(static_cast<double>(all.back().offset_ns) * 1e-9, 40, 2.5);
  EXPECT_EQ(all.back().offset_ns, again.back().offset_ns);
  for (std::size_t i = 1; i < all.size(); ++i) ASSERT_GE(all[i].offset_ns, all[i - 1].offset_ns);
}

TEST(ArrivalsTest, TheSameRequestHasTheSamePromptAndOthersDiffer) {
  const Arrival first = {.index = 0, .prompt_tokens = 8}, second = {.index = 1, .prompt_tokens = 8};
  EXPECT_EQ(PromptIds(1, first, 256), PromptIds(1, first, 256));
  EXPECT_NE(PromptIds(1, first, 256), PromptIds(1, second, 256));
  EXPECT_THAT(PromptIds(1, first, 256),
              testing::Each(testing::AllOf(testing::Ge(3), testing::Lt(256))));
}

class TraceArrivalsTest : public testing::Test {
 protected:
  std::vector<Arrival> Read(const std::string& text) {
    const auto path = folder_.path() / "trace.csv";
    std::ofstream(path) << text;
    return All({.trace = path});
  }
  std::string ErrorOf(const std::string& text) {
    try {
      Read(text);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(TraceArrivalsTest, ReadsLinesWithOrWithoutAHeader) {
  const auto all = Read("arrival_s,prompt_tokens,output_tokens\n0,5,6\r\n0.25,7,8");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].offset_ns, 250000000);
  EXPECT_EQ(all[1].prompt_tokens, 7);
  EXPECT_EQ(all[1].output_tokens, 8);
}

TEST_F(TraceArrivalsTest, NamesTheLineThatIsWrong) {
  for (const char* bad :
       {"1,5\n", "x,5,6\n", "1,0,6\n", "1,5,6,7\n", "-1,5,6\n", "nan,5,6\n", "\n"}) {
    EXPECT_THAT(ErrorOf(std::string("0,5,6\n") + bad), testing::HasSubstr("trace.csv:2:")) << bad;
  }
  EXPECT_THAT(ErrorOf("1,5,6\n0.5,5,6\n"), testing::HasSubstr("trace.csv:2:"));
  EXPECT_THAT(ErrorOf(""), testing::HasSubstr("no arrivals"));
}

TEST(LengthRangeTest, ParsesOneNumberOrTwo) {
  EXPECT_EQ(LengthRange::Parse("8", "x").high, 8);
  EXPECT_EQ(LengthRange::Parse("8:9", "x").low, 8);
  for (const char* bad : {"", "0", "9:8", "a", "1:", ":1", "1:2:3", "99999999999"}) {
    EXPECT_THROW(LengthRange::Parse(bad, "x"), ConfigError) << bad;
  }
}

}  // namespace
}  // namespace teller::load
