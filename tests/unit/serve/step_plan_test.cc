#include "src/workload/serve/step_plan.h"

#include <gtest/gtest.h>

#include "src/core/error.h"

namespace teller::serve {
namespace {

StepPlan Example() {
  return {
      .step = 12,
      .items = {
          {.start = 0, .context = true, .samples = false, .tokens = {5, 6, 7}, .blocks = {1, 4}},
          {.start = 9, .context = false, .samples = true, .tokens = {8}, .blocks = {0}}}};
}

TEST(StepPlanTest, ParsesWhatItSerialized) {
  const StepPlan plan = StepPlan::Parse(Example().Serialize());
  EXPECT_EQ(plan.step, 12u);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(plan.items[0].blocks, (std::vector<int32_t>{1, 4}));
  EXPECT_TRUE(plan.items[0].context);
  EXPECT_FALSE(plan.items[0].samples);
  EXPECT_EQ(plan.items[1].start, 9);
  EXPECT_TRUE(plan.items[1].samples);
  EXPECT_EQ(plan.Annotation(), "execute_context_1(3)_generation_1(1)");
}

TEST(StepPlanTest, RefusesEveryCutAndOtherWords) {
  const std::vector<int32_t> words = Example().Serialize();
  for (std::size_t length = 0; length < words.size(); ++length) {
    EXPECT_THROW(StepPlan::Parse(std::span(words).first(length)), DeviceError) << length;
  }
  std::vector<int32_t> longer = words;
  longer.push_back(0);
  EXPECT_THROW(StepPlan::Parse(longer), DeviceError);
  std::vector<int32_t> foreign = words;
  foreign[0] = 1;
  EXPECT_THROW(StepPlan::Parse(foreign), DeviceError);
}

}  // namespace
}  // namespace teller::serve
