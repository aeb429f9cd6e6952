#include "src/reconstruct/step_name.h"

#include <gtest/gtest.h>

#include <string>

#include "src/core/error.h"

namespace teller::reconstruct {
namespace {

std::optional<StepName> Match(std::size_t rule, std::string_view name) {
  return StepMatcher(DefaultStepRules()[rule]).Match(name);
}

TEST(StepNameTest, ReadsTheAnnotationOfVllmAndTheReference) {
  const auto mixed = Match(0, "execute_context_2(300)_generation_5(5)");
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->phase, Phase::kMixed);
  EXPECT_EQ(mixed->batch_size, 7);
  EXPECT_EQ(mixed->context_tokens, 300);
  const auto newer = Match(0,
                           "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_"
                           "generation_0(sq0sk0sqsq0sqsk0)");
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->phase, Phase::kPrefill);
  EXPECT_EQ(newer->batch_size, 15);
  EXPECT_EQ(newer->context_tokens, 15360);
  EXPECT_EQ(Match(0, "execute_context_0(0)_generation_3(3)")->context_tokens, 0);
  EXPECT_FALSE(Match(0, "prefix execute_context_0(0)_generation_3(3)"));
}

TEST(StepNameTest, ReadsTheAnnotationOfSglang) {
  const auto extend = Match(1, "step[EXTEND bs=15 toks=15360]");
  ASSERT_TRUE(extend);
  EXPECT_EQ(extend->phase, Phase::kPrefill);
  EXPECT_EQ(extend->batch_size, 15);
  EXPECT_EQ(extend->context_tokens, 15360);
  const auto decode = Match(1, "step[DECODE bs=32]");
  ASSERT_TRUE(decode);
  EXPECT_EQ(decode->phase, Phase::kDecode);
  EXPECT_EQ(decode->context_tokens, 0);
  EXPECT_EQ(Match(1, "step[IDLE bs=0]")->phase, Phase::kUnknown);
}

TEST(StepNameTest, AnEmptyBatchAndNumbersTooLargeSayNothing) {
  EXPECT_EQ(Match(0, "execute_context_0(0)_generation_0(0)")->phase, Phase::kUnknown);
  EXPECT_EQ(Match(1, "step[DECODE bs=99999999999]")->batch_size, 0);
}

TEST(StepNameTest, LongNamesNeverMatch) {
  EXPECT_FALSE(Match(1, "step[DECODE bs=1" + std::string(100000, 'x') + "]"));
}

TEST(StepNameTest, RefusesRulesThatAreNone) {
  EXPECT_THROW(StepMatcher({.expression = "("}), ConfigError);
  EXPECT_THROW(StepMatcher({.expression = "a(b)", .batch = 2}), ConfigError);
}

}  // namespace
}  // namespace teller::reconstruct
