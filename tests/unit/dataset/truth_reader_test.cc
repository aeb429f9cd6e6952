#include "src/dataset/truth_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "src/core/error.h"
#include "tests/support/schema_document.h"

namespace teller::dataset {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    R"({"type":"header","schema_name":"truth","schema_version":"1.0","run_id":"r","seed":7,"nodes":[{"name":"node0","rank":null,"clock_offset_ns":5}]})"
    "\n";
constexpr const char* kPlan =
    R"({"type":"plan","plan_id":0,"stretch":2,"kind":"process_pause","family":"host","view":"horizontal","placebo":true,"level":3,"magnitude":{},"target":{"rank":1,"node":"n","layer":null,"symbol":null},"culprit":{"rank":1,"layer":null,"symbol":null},"where":"interval"})"
    "\n";

std::string MessageOf(const std::string& text) {
  try {
    ParseTruth(text, "t.jsonl");
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

TEST(TruthReaderTest, ReadsTheExampleOfTheDocument) {
  // The document's only block without a language.
  const std::string text = testing_support::CodeBlock("docs/schema/truth.md", "");
  const Truth truth = ParseTruth(text, "example");
  EXPECT_TRUE(truth.complete);
  EXPECT_EQ(truth.run_id, "a1b2c3");
  ASSERT_EQ(truth.nodes.size(), 2u);
  EXPECT_EQ(truth.nodes[1].rank, RankId{1});
  ASSERT_EQ(truth.calibration.size(), 1u);
  EXPECT_EQ(truth.calibration[0].end_ns, 5000000000);
  ASSERT_EQ(truth.plans.size(), 1u);
  EXPECT_EQ(truth.plans[0].view, View::kHorizontal);
  EXPECT_EQ(truth.plans[0].culprit_symbol, "all_reduce");
  ASSERT_EQ(truth.edges.size(), 2u);
  EXPECT_TRUE(truth.edges[0].begin);
  ASSERT_EQ(truth.actions.size(), 1u);
  EXPECT_EQ(truth.actions[0].place, ActionPlace::kInside);
  EXPECT_EQ(truth.actions[0].end_ns, 6000900400);
}

TEST(TruthReaderTest, NullsMeanNone) {
  const Truth truth = ParseTruth(std::string(kHeader) + kPlan, "t");
  EXPECT_EQ(truth.nodes[0].rank, kNoRank);
  EXPECT_EQ(truth.plans[0].culprit_symbol, "");
  EXPECT_TRUE(truth.plans[0].placebo);
  EXPECT_FALSE(truth.complete);
}

TEST(TruthReaderTest, CountsUnknownTypesAndIgnoresUnknownKeys) {
  const Truth truth = ParseTruth(std::string(kHeader) + R"({"type":"weather","rain":true})"
                                                        "\n",
                                 "t");
  EXPECT_EQ(truth.unknown_lines, 1);
}

TEST(TruthReaderTest, ALineCutShortMakesItIncomplete) {
  EXPECT_FALSE(ParseTruth(std::string(kHeader) + R"({"type":"act)", "t").complete);
  EXPECT_THAT(MessageOf(std::string(kHeader) + "{\"type\":\"act\n"),
              HasSubstr("t.jsonl:2: expected a JSON object"));
}

TEST(TruthReaderTest, AFooterThatCountedOthersIsNotComplete) {
  EXPECT_FALSE(ParseTruth(std::string(kHeader) + R"({"type":"footer","complete":true,"actions":3})"
                                                 "\n",
                          "t")
                   .complete);
}

TEST(TruthReaderTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(MessageOf(""), HasSubstr("not a header"));
  EXPECT_THAT(MessageOf(kPlan), HasSubstr("not a header"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "{}\n"),
              HasSubstr("t.jsonl:2: key 'type' is missing"));
  EXPECT_THAT(MessageOf(std::string(kHeader) +
                        R"({"type":"calibration","node":"a","begin_ns":1.5,"end_ns":2})"
                        "\n"),
              HasSubstr("key 'begin_ns' is not an integer"));
  EXPECT_THAT(
      MessageOf(
          std::string(kHeader) +
          R"({"type":"action","plan_id":4,"node":"a","rank":0,"begin_ns":1,"end_ns":2,"what":"delay","where":"inside"})"
          "\n"),
      HasSubstr("plan 4, which is not planned"));
  EXPECT_THAT(
      MessageOf(
          std::string(kHeader) + kPlan +
          R"({"type":"action","plan_id":0,"node":"a","rank":0,"begin_ns":3,"end_ns":2,"what":"delay","where":"inside"})"
          "\n"),
      HasSubstr("ends before it begins"));
  EXPECT_THAT(
      MessageOf(
          std::string(kHeader) + kPlan +
          R"({"type":"action","plan_id":0,"node":"a","rank":0,"begin_ns":1,"end_ns":2,"what":"delay","where":"nowhere"})"
          "\n"),
      HasSubstr("'nowhere'"));
}

}  // namespace
}  // namespace teller::dataset
