#include "src/agent/delays.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/agent/clock.h"

namespace teller::agent {
namespace {

Plan PlanFor(TellerTarget target, const char* pattern) {
  Plan plan{};
  plan.target = target;
  std::strcpy(plan.pattern, pattern);
  plan.pattern_length = static_cast<uint32_t>(std::strlen(pattern));
  plan.prefix = plan.pattern_length > 0 && pattern[plan.pattern_length - 1] == '*';
  if (plan.prefix) --plan.pattern_length;
  return plan;
}

TEST(MatchesPatternTest, IsExactUnlessTheStarSaysOtherwise) {
  EXPECT_TRUE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, "aten::mm"), "aten::mm"));
  EXPECT_FALSE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, "aten::mm"), "aten::mm_out"));
  EXPECT_TRUE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, "aten::mm*"), "aten::mm_out"));
  EXPECT_FALSE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, "aten::mm*"), "aten::m"));
  EXPECT_TRUE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, "*"), "anything"));
  EXPECT_FALSE(MatchesPattern(PlanFor(TELLER_TARGET_OPERATOR, ""), "anything"));
}

TEST(MatchesPatternTest, LeavesOutTheBackendOfACollectiveOnly) {
  EXPECT_TRUE(MatchesPattern(PlanFor(TELLER_TARGET_COLLECTIVE, "all_reduce"), "gloo:all_reduce"));
  EXPECT_TRUE(MatchesPattern(PlanFor(TELLER_TARGET_COLLECTIVE, "gloo:all_*"), "gloo:all_reduce"));
  EXPECT_FALSE(MatchesPattern(PlanFor(TELLER_TARGET_RANGE, "all_reduce"), "gloo:all_reduce"));
}

// Never short; how long it may be is left to the machine, so the bound is loose.
TEST(WaitTest, LastsAtLeastAsLongAsAsked) {
  for (const int64_t delay_ns :
       {int64_t{0}, int64_t{20'000}, int64_t{150'000}, int64_t{2'000'000}}) {
    const int64_t begin_ns = MonotonicNs();
    Wait(delay_ns);
    const int64_t took_ns = MonotonicNs() - begin_ns;
    EXPECT_GE(took_ns, delay_ns);
    EXPECT_LT(took_ns, delay_ns + 200'000'000);
  }
}

}  // namespace
}  // namespace teller::agent
