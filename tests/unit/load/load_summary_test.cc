#include "src/workload/load/load_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace teller::load {
namespace {

TEST(LoadSummaryTest, PercentilesInterpolateBetweenRanks) {
  const Percentiles p =
      PercentilesOf({40, 10, 20, 30});  // median between 20 and 30; p90 at rank 2.7
  EXPECT_EQ(p.p50, 25);
  EXPECT_EQ(p.p90, 37);
  EXPECT_EQ(p.mean, 25);
  EXPECT_EQ(PercentilesOf({}).p50, -1);
}

TEST(LoadSummaryTest, CountsFailuresAndMeasuresTheRest) {
  const std::vector<RequestResult> results = {
      {.index = 0,
       .begin_ns = 100,
       .end_ns = 1100,
       .token_ns = {300, 500, 900},
       .prompt_tokens = 4,
       .output_tokens = 3},
      {.index = 1, .begin_ns = 200, .end_ns = 2100, .status = "http_503", .reason = "busy"}};
  const LoadSummary summary = Summarize(results, /*late=*/0);
  EXPECT_EQ(summary.requests, 2);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.duration_ns, 2000);
  EXPECT_EQ(summary.ttft.p50, 200);
  EXPECT_EQ(summary.tpot.p50, 300);  // (900 - 300) / 2
  EXPECT_EQ(summary.itl.p50, 300);   // gaps 200 and 400
  EXPECT_EQ(summary.e2e.p50, 1000);
}

TEST(LoadSummaryTest, LinesAreJsonWithTheKeysOfTheSchema) {
  const RequestResult failed = {.index = 7, .status = "cut_short", .reason = "bad \xff byte"};
  const auto line = nlohmann::json::parse(ToJsonLine(failed));
  for (const char* key : {"request", "begin_ns", "ttft_ns", "tpot_ns", "end_ns", "prompt_tokens",
                          "output_tokens", "status", "reason"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["ttft_ns"], -1);
  EXPECT_TRUE(nlohmann::json::parse(ToJsonLine(Summarize({}, 0))).contains("summary"));
}

}  // namespace
}  // namespace teller::load
