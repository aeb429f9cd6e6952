#include "src/reconstruct/requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace teller::reconstruct {
namespace {

TEST(RequestsTest, ReadsMarks) {
  EXPECT_EQ(ParseRequestMark("request run a b", 5)->id, "a b");
  EXPECT_EQ(ParseRequestMark("request finish a", 5)->event, RequestEvent::kLeave);
  EXPECT_FALSE(ParseRequestMark("request add a", 5));
  EXPECT_FALSE(ParseRequestMark("request run ", 5));
  EXPECT_FALSE(ParseRequestMark("other", 5));
}

TEST(RequestsTest, ReadsLinesOfTheApiServer) {
  const auto received = ParseRequestLine(
      "(APIServer pid=7) INFO 12-01 12:00:00 Received request cmpl-ab-1-0: params: "
      "SamplingParams(n=1, max_tokens=12, min_tokens=0), lora_request: None.",
      5);
  EXPECT_EQ(received->id, "cmpl-ab-1");
  EXPECT_FALSE(received->answered);
  EXPECT_EQ(received->max_tokens, 12);
  const auto done =
      ParseRequestLine("Generated response cmpl-ab-1 (streaming complete): output: '...'", 9);
  EXPECT_EQ(done->id, "cmpl-ab-1");
  EXPECT_TRUE(done->answered);
  EXPECT_EQ(ParseRequestLine("Received request chatcmpl-7: params", 5)->id, "chatcmpl-7");
  EXPECT_EQ(ParseRequestLine("Received request a: max_tokens=None", 5)->max_tokens, 0);
  EXPECT_FALSE(ParseRequestLine("Generated response a (streaming delta): output: 'x'", 5));
  EXPECT_FALSE(ParseRequestLine("Received request ", 5));
  EXPECT_FALSE(ParseRequestLine("nothing of that kind", 5));
}

/// A step at 100 * `index` with so many requests.
StepForest Step(int index, Phase phase, int32_t batch) {
  StepForest step;
  step.begin_ns = 100 * index;
  step.end_ns = step.begin_ns + 90;
  step.phase = phase;
  step.batch_size = batch;
  return step;
}

// a may have 3 tokens: steps 1 to 3. b came during step 1 and joins at step 2, whose prompt is its,
// and is answered before step 5. c waits since step 3 has no room, and is alone from step 5 on.
TEST(RequestsTest, LoggedRequestsJoinInOrderWhereThereIsRoom) {
  std::vector<StepForest> steps = {Step(1, Phase::kPrefill, 1), Step(2, Phase::kMixed, 2),
                                   Step(3, Phase::kDecode, 2),  Step(4, Phase::kDecode, 1),
                                   Step(5, Phase::kPrefill, 1), Step(6, Phase::kDecode, 2)};
  EXPECT_EQ(
      AssignLoggedRequests(
          {{210, false, "c", 9}, {50, false, "a", 3}, {150, false, "b", 9}, {495, true, "b", 0}},
          steps),
      1);  // step 6: two by its name, one known
  EXPECT_EQ(steps[0].requests, (std::vector<std::string>{"a"}));
  EXPECT_EQ(steps[1].requests, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(steps[2].requests, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(steps[3].requests, (std::vector<std::string>{"b"}));
  EXPECT_EQ(steps[4].requests, (std::vector<std::string>{"c"}));
  EXPECT_EQ(steps[5].requests, (std::vector<std::string>{"c"}));
}

// a: in steps 0 and 1, preempted during 1, back in 3. b: from step 1 to the end. Marks come in any
// order.
TEST(RequestsTest, ARequestIsInTheStepsBetweenItsMarks) {
  std::vector<StepForest> steps(4);
  for (int i = 0; i < 4; ++i) {
    steps[static_cast<std::size_t>(i)].begin_ns = 100 * i;
    steps[static_cast<std::size_t>(i)].end_ns = 100 * i + 90;
  }
  steps[2].requests = {"known"};
  AssignRequests({{310, RequestEvent::kRun, "a"},
                  {10, RequestEvent::kRun, "a"},
                  {110, RequestEvent::kRun, "b"},
                  {150, RequestEvent::kLeave, "a"},
                  {1, RequestEvent::kLeave, "never ran"}},
                 steps);
  EXPECT_EQ(steps[0].requests, (std::vector<std::string>{"a"}));
  EXPECT_EQ(steps[1].requests, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(steps[2].requests, (std::vector<std::string>{"known"}));
  EXPECT_EQ(steps[3].requests, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace teller::reconstruct
