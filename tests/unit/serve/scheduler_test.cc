#include "src/workload/serve/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "src/core/random.h"

namespace teller::serve {
namespace {

using testing::ElementsAre;

EngineRequest Request(std::string id, int prompt_tokens, int max_tokens) {
  return {.id = std::move(id),
          .prompt = std::vector<int32_t>(static_cast<std::size_t>(prompt_tokens), 7),
          .max_tokens = max_tokens};
}

/// Applies a decision with token 9 for every sampled item.
std::vector<Scheduler::Outcome> ApplyNines(Scheduler& scheduler,
                                           const Scheduler::Decision& decision) {
  std::vector<int32_t> tokens;
  for (const PlanItem& item : decision.plan.items) {
    if (item.samples) tokens.push_back(9);
  }
  return scheduler.Apply(decision, tokens);
}

TEST(SchedulerTest, DecodesRunningRequestsBesideNewPrompts) {
  Scheduler scheduler({});
  scheduler.Add(Request("a", 5, 3));
  auto first = scheduler.Schedule();
  EXPECT_EQ(first.plan.Annotation(), "execute_context_1(5)_generation_0(0)");
  EXPECT_THAT(first.started, ElementsAre("a"));
  ApplyNines(scheduler, first);
  scheduler.Add(Request("b", 4, 3));
  auto second = scheduler.Schedule();
  EXPECT_EQ(second.plan.Annotation(), "execute_context_1(4)_generation_1(1)");
  EXPECT_THAT(second.requests, ElementsAre("a", "b"));
  EXPECT_EQ(second.plan.items[0].start, 5);
  EXPECT_THAT(second.plan.items[0].tokens, ElementsAre(9));
}

TEST(SchedulerTest, EndsAtTheLengthAndAtTheStopToken) {
  Scheduler scheduler({});
  auto stops = Request("stops", 2, 5);
  stops.stop_token = 9;
  scheduler.Add(Request("short", 2, 1));
  scheduler.Add(std::move(stops));
  const auto outcomes = ApplyNines(scheduler, scheduler.Schedule());
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].finish, FinishReason::kLength);
  EXPECT_EQ(outcomes[1].finish, FinishReason::kStop);
  EXPECT_FALSE(scheduler.HasWork());
  EXPECT_EQ(scheduler.cache_usage(), 0);
}

TEST(SchedulerTest, SpreadsAPromptOverStepsWithChunkedPrefill) {
  Scheduler scheduler({.max_step_tokens = 4, .chunked_prefill = true});
  scheduler.Add(Request("a", 6, 1));
  auto first = scheduler.Schedule();
  EXPECT_EQ(first.plan.Annotation(), "execute_context_1(4)_generation_0(0)");
  EXPECT_FALSE(first.plan.items[0].samples);
  EXPECT_TRUE(ApplyNines(scheduler, first).empty());
  auto second = scheduler.Schedule();
  EXPECT_EQ(second.plan.Annotation(), "execute_context_1(2)_generation_0(0)");
  EXPECT_EQ(second.plan.items[0].start, 4);
  EXPECT_TRUE(second.plan.items[0].samples);
}

TEST(SchedulerTest, WithoutChunkedPrefillAPromptWaitsForRoomInOneStep) {
  Scheduler scheduler({.max_step_tokens = 8, .chunked_prefill = false});
  scheduler.Add(Request("a", 6, 2));
  scheduler.Add(Request("b", 6, 2));
  auto first = scheduler.Schedule();
  EXPECT_THAT(first.requests, ElementsAre("a"));
  ApplyNines(scheduler, first);
  EXPECT_THAT(scheduler.Schedule().requests, ElementsAre("a", "b"));
  EXPECT_NE(scheduler.WhyNever(6, 3), "");
}

TEST(SchedulerTest, WithoutPreemptionARequestWaitsForTheBlocksOfItsLongestOutput) {
  Scheduler scheduler({.block_tokens = 4, .blocks = 4, .preemption = false});
  scheduler.Add(Request("a", 4, 8));  // 12 tokens: 3 of 4 blocks
  scheduler.Add(Request("b", 4, 4));  // 2 blocks
  for (int step = 0; step < 8; ++step) {
    auto decision = scheduler.Schedule();
    EXPECT_THAT(decision.requests, ElementsAre("a")) << step;
    EXPECT_TRUE(decision.preempted.empty());
    ApplyNines(scheduler, decision);
  }
  EXPECT_THAT(scheduler.Schedule().requests, ElementsAre("b"));
}

TEST(SchedulerTest, PreemptsTheNewestAndComputesItAgain) {
  Scheduler scheduler({.block_tokens = 4, .blocks = 2, .preemption = true});
  scheduler.Add(Request("a", 4, 3));
  scheduler.Add(Request("b", 4, 3));
  ApplyNines(scheduler, scheduler.Schedule());
  auto second = scheduler.Schedule();  // a's fifth token needs a second block
  EXPECT_THAT(second.requests, ElementsAre("a"));
  EXPECT_THAT(second.preempted, ElementsAre("b"));
  ApplyNines(scheduler, second);
  ApplyNines(scheduler, scheduler.Schedule());  // a ends
  auto again = scheduler.Schedule();
  EXPECT_THAT(again.started, ElementsAre("b"));
  EXPECT_EQ(again.plan.Annotation(), "execute_context_1(5)_generation_0(0)");
  EXPECT_THAT(again.plan.items[0].tokens, ElementsAre(7, 7, 7, 7, 9));
}

TEST(SchedulerTest, AbortFreesWaitingAndRunningRequests) {
  Scheduler scheduler({.max_requests = 1});
  scheduler.Add(Request("a", 4, 4));
  scheduler.Add(Request("b", 4, 4));
  ApplyNines(scheduler, scheduler.Schedule());
  EXPECT_TRUE(scheduler.Abort("a"));
  EXPECT_TRUE(scheduler.Abort("b"));
  EXPECT_FALSE(scheduler.Abort("c"));
  EXPECT_FALSE(scheduler.HasWork());
  EXPECT_EQ(scheduler.cache_usage(), 0);
}

TEST(SchedulerTest, RefusesWhatCanNeverFit) {
  const Scheduler scheduler({.block_tokens = 4, .blocks = 4});
  EXPECT_EQ(scheduler.WhyNever(12, 4), "");
  EXPECT_NE(scheduler.WhyNever(12, 5), "");
}

/// Every request gets all its tokens, no block is owned twice, and no limit is crossed, whatever
/// the settings.
TEST(SchedulerTest, AnyLoadEndsWithEveryTokenAndNoSharedBlock) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Scheduler::Options options = {.max_requests = static_cast<int>(random.UniformInt(1, 6)),
                                  .max_step_tokens = 40,
                                  .block_tokens = 4,
                                  .blocks = static_cast<int>(random.UniformInt(10, 24)),
                                  .chunked_prefill = random.Bernoulli(0.5),
                                  .preemption = random.Bernoulli(0.5)};
    if (options.chunked_prefill)
      options.max_step_tokens = static_cast<int>(random.UniformInt(6, 40));
    Scheduler scheduler(options);
    std::map<std::string, int> wanted, got;
    for (int i = 0; i < 12; ++i) {
      const auto request = Request(std::to_string(i), static_cast<int>(random.UniformInt(1, 20)),
                                   static_cast<int>(random.UniformInt(1, 20)));
      if (!scheduler.WhyNever(request.prompt.size(), request.max_tokens).empty()) continue;
      wanted[request.id] = request.max_tokens;
      scheduler.Add(request);
    }
    for (int step = 0; scheduler.HasWork(); ++step) {
      ASSERT_LT(step, 2000);
      const auto decision = scheduler.Schedule();
      ASSERT_FALSE(decision.plan.items.empty());
      std::size_t tokens = 0, blocks = 0;
      std::set<int32_t> owned;
      for (const PlanItem& item : decision.plan.items) {
        tokens += item.tokens.size();
        blocks += item.blocks.size();
        owned.insert(item.blocks.begin(), item.blocks.end());
        ASSERT_GE(item.blocks.size() * 4,
                  static_cast<std::size_t>(item.start) + item.tokens.size());
      }
      ASSERT_EQ(owned.size(), blocks);
      ASSERT_LE(tokens, static_cast<std::size_t>(options.max_step_tokens));
      ASSERT_LE(decision.plan.items.size(), static_cast<std::size_t>(options.max_requests));
      for (const auto& outcome : ApplyNines(scheduler, decision)) ++got[outcome.id];
    }
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(scheduler.cache_usage(), 0);
  }
}

}  // namespace
}  // namespace teller::serve
