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
      "(APIServer pid=7) INFO 12-01 12:00:00 Received request cmpl-ab-1-0: params: ...", 5);
  EXPECT_EQ(received->id, "cmpl-ab-1");
  EXPECT_EQ(received->event, RequestEvent::kRun);
  const auto done =
      ParseRequestLine("Generated response cmpl-ab-1 (streaming complete): output: '...'", 9);
  EXPECT_EQ(done->id, "cmpl-ab-1");
  EXPECT_EQ(done->event, RequestEvent::kLeave);
  EXPECT_EQ(ParseRequestLine("Received request chatcmpl-7: params", 5)->id, "chatcmpl-7");
  EXPECT_FALSE(ParseRequestLine("Generated response a (streaming delta): output: 'x'", 5));
  EXPECT_FALSE(ParseRequestLine("Received request ", 5));
  EXPECT_FALSE(ParseRequestLine("nothing of that kind", 5));
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
