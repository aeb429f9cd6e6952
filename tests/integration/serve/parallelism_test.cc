// TP=1 and TP=2 compute the same: float32 logits agree to 1e-4, and greedy tokens are the same
// wherever the best two logits are 1e-3 or more apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/integration/serve/program.h"

namespace teller::serve {
namespace {

using nlohmann::json;

constexpr double kLogitTolerance = 1e-4;
constexpr double kMargin = 1e-3;
const std::string kPrompts = TELLER_SOURCE_DIR "/tests/integration/serve/prompts.json";

/// The JSON document on the last line of a program's output.
json LastLine(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end) + 1;
  return json::parse(text.substr(begin, end - begin + 1), nullptr, /*allow_exceptions=*/false);
}

json OneRank(const std::vector<std::string>& more) {
  const testing_support::TemporaryFolder folder;
  std::vector<std::string> arguments = {
      "--config",     TELLER_SOURCE_DIR "/configs/workload/reference.yaml",
      "--rank",       "0",
      "--world-size", "1",
      "--set",        "parallel.tensor=1",
      "--logits",     kPrompts};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Program program("teller-serve", arguments, folder.path(), "one");
  EXPECT_EQ(program.Wait(kPatienceS), 0) << program.Stderr();
  return LastLine(program.Stdout());
}

json TwoRanksOutput(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--logits", kPrompts};
  arguments.insert(arguments.end(), more.begin(), more.end());
  TwoRanks ranks(arguments);
  EXPECT_EQ(ranks.rank(0).Wait(kPatienceS), 0) << ranks.rank(0).Stderr();
  EXPECT_EQ(ranks.rank(1).Wait(kPatienceS), 0) << ranks.rank(1).Stderr();
  return LastLine(ranks.rank(0).Stdout());
}

double MaxDifference(const json& a, const json& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i].get<double>() - b[i].get<double>()));
  return largest;
}

double TopTwoMargin(const json& logits) {
  auto values = logits.get<std::vector<double>>();
  std::nth_element(values.begin(), values.begin() + 1, values.end(), std::greater<>());
  return values[0] - values[1];
}

/// Compares prompt by prompt up to the first token whose margin is too small to decide.
void ExpectSame(const json& a, const json& b, std::size_t& compared) {
  ASSERT_EQ(a["prompts"].size(), b["prompts"].size());
  for (std::size_t p = 0; p < a["prompts"].size(); ++p) {
    SCOPED_TRACE(p);
    const json &one = a["prompts"][p], &two = b["prompts"][p];
    ASSERT_EQ(one["logits"].size(), two["logits"].size());
    for (std::size_t t = 0; t < one["logits"].size(); ++t) {
      ASSERT_LE(MaxDifference(one["logits"][t], two["logits"][t]), kLogitTolerance)
          << "token " << t;
      if (TopTwoMargin(one["logits"][t]) < kMargin) break;
      ASSERT_EQ(one["tokens"][t], two["tokens"][t]) << "token " << t;
      ++compared;
    }
  }
}

TEST(ParallelismTest, TwoRanksComputeWhatOneComputes) {
  std::size_t compared = 0;
  ExpectSame(OneRank({}), TwoRanksOutput({}), compared);
  EXPECT_GT(compared, 80u);  // of 8 prompts with 12 tokens
}

TEST(ParallelismTest, TwoStagesSampleWhatOneRankSamples) {
  // Logits are on the last stage only; every token of these prompts has a margin above kMargin,
  // which the test above sees.
  const json one = OneRank({});
  const json two = TwoRanksOutput({"--set", "parallel.tensor=1", "--set", "parallel.pipeline=2"});
  ASSERT_EQ(two["prompts"].size(), 8u);
  for (std::size_t p = 0; p < 8; ++p) {
    EXPECT_EQ(one["prompts"][p]["tokens"], two["prompts"][p]["tokens"]) << "prompt " << p;
  }
}

TEST(ParallelismTest, ChunkedPrefillAndPreemptionChangeNoToken) {
  const json plain = OneRank({});
  std::size_t compared = 0;
  // Chunks of 16 tokens; and 7 blocks for requests that need 5 each, so that some are computed
  // twice.
  ExpectSame(plain, OneRank({"--set", "engine.max_step_tokens=16"}), compared);
  ExpectSame(plain, OneRank({"--set", "engine.blocks=7"}), compared);
  EXPECT_GT(compared, 160u);
}

}  // namespace
}  // namespace teller::serve
