#include "src/dataset/step_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/support/schema_document.h"

namespace teller::dataset {
namespace {

using reconstruct::StepForest;

constexpr int64_t kMs = 1'000'000;

// Ten equal steps of two ranks; rank 1 waits for rank 0 in a collective from 1 ms to 2 ms; a launch
// 100 us before its kernel.
std::vector<StepForest> Steps() {
  std::vector<StepForest> steps;
  for (int i = 0; i < 10; ++i) {
    StepForest step{.engine_step = i,
                    .begin_ns = i * 10 * kMs,
                    .end_ns = i * 10 * kMs + 4 * kMs,
                    .phase = reconstruct::Phase::kDecode,
                    .batch_size = 3,
                    .context_tokens = 0};
    step.ranks = {RankId{0}, RankId{1}};
    step.rank_begin_ns = {step.begin_ns, step.begin_ns};
    step.rank_end_ns = {step.end_ns, step.end_ns};
    step.tracks = {{RankId{0}, 0, false}, {RankId{0}, 1, true}, {RankId{1}, 0, false}};
    const auto comm = trace::Layer::kComm;
    const auto collective = trace::Kind::kCollective;
    step.nodes = {
        {.track = 0, .duration_ns = 4 * kMs, .host_self_ns = 3 * kMs, .gap_before_ns = 6 * kMs},
        {.track = 0,
         .layer = comm,
         .kind = collective,
         .parent = NodeId{0},
         .depth = 1,
         .begin_ns = 2 * kMs,
         .duration_ns = kMs,
         .host_self_ns = kMs},
        {.track = 1, .layer = trace::Layer::kDevice, .begin_ns = kMs, .duration_ns = kMs},
        {.track = 1,
         .layer = trace::Layer::kDevice,
         .kind = trace::Kind::kKernel,
         .parent = NodeId{2},
         .depth = 1,
         .begin_ns = kMs,
         .duration_ns = kMs,
         .device_busy_ns = kMs},
        {.track = 2, .duration_ns = 4 * kMs, .host_self_ns = 2 * kMs, .gap_before_ns = 6 * kMs},
        {.track = 2,
         .layer = comm,
         .kind = collective,
         .parent = NodeId{4},
         .depth = 1,
         .begin_ns = 1 * kMs,
         .duration_ns = 2 * kMs,
         .host_self_ns = 2 * kMs},
    };
    step.edges = {{NodeId{1}, NodeId{5}, reconstruct::EdgeType::kCollective},
                  {NodeId{0}, NodeId{3}, reconstruct::EdgeType::kLaunch}};
    steps.push_back(step);
  }
  return steps;
}

float At(const StepNumbers& numbers, std::size_t step, const std::string& name) {
  const auto found = std::ranges::find(numbers.names, name);
  EXPECT_NE(found, numbers.names.end()) << name;
  return numbers.rows[step][static_cast<std::size_t>(found - numbers.names.begin())];
}

TEST(StepNumbersTest, AStepLikeTheOthersIsZero) {
  const StepNumbers numbers = ComputeStepNumbers(Steps(), {});
  EXPECT_FLOAT_EQ(At(numbers, 3, "step_duration"), 0);
  EXPECT_FLOAT_EQ(At(numbers, 3, "rank1_wait"), 0);
  EXPECT_FLOAT_EQ(At(numbers, 3, "is_decode"), 1);
  EXPECT_FLOAT_EQ(At(numbers, 3, "log_batch"), std::log(4.0f));
}

TEST(StepNumbersTest, ALongerWaitShowsOnTheRankThatWaits) {
  auto steps = Steps();
  // Rank 0 starts 3 ms later: rank 1 waits 4 ms instead of 1.
  steps[7].nodes[1].begin_ns += 3 * kMs;
  steps[7].nodes[5].duration_ns += 3 * kMs;
  const StepNumbers numbers = ComputeStepNumbers(steps, {});
  EXPECT_NEAR(At(numbers, 7, "rank1_wait"), std::log(4.08 / 1.08), 1e-4);  // floor: 2 % of 4 ms
  EXPECT_FLOAT_EQ(At(numbers, 7, "rank0_wait"), 0);
  EXPECT_NEAR(At(numbers, 7, "wait_max"), std::log(4.08 / 1.08), 1e-4);
  EXPECT_FLOAT_EQ(At(numbers, 7, "transfer_max"), 0);
}

TEST(StepNumbersTest, OnlyCalibrationStepsAreTheScale) {
  auto steps = Steps();
  for (std::size_t i = 5; i < 10; ++i) steps[i].end_ns += 4 * kMs;
  const StepNumbers numbers =
      ComputeStepNumbers(steps, {true, true, true, true, true, false, false, false, false, false});
  EXPECT_NEAR(At(numbers, 9, "step_duration"), std::log(8.01 / 4.01), 1e-4);
  EXPECT_FLOAT_EQ(At(numbers, 0, "step_duration"), 0);
}

TEST(StepNumbersTest, NumbersDependOnNoTimeOrStepIndex) {
  auto moved = Steps();
  for (StepForest& step : moved) {
    step.engine_step += 1000;
    step.begin_ns += 77 * kMs;
    step.end_ns += 77 * kMs;
    for (int64_t& t : step.rank_begin_ns) t += 77 * kMs;
    for (int64_t& t : step.rank_end_ns) t += 77 * kMs;
  }
  EXPECT_EQ(ComputeStepNumbers(moved, {}).rows, ComputeStepNumbers(Steps(), {}).rows);
}

TEST(StepNumbersTest, ColumnsAreThoseOfTheDocument) {
  std::vector<std::string> quantities;
  for (const auto& row : testing_support::TableRows("docs/numbers.md", "| Q |"))
    quantities.push_back(row[0]);
  std::set<std::string> documented{"step_duration", "is_prefill", "is_decode",
                                   "is_mixed",      "log_batch",  "log_context_tokens"};
  for (const std::string& q : quantities) {
    documented.insert({q + "_max", q + "_min"});
    for (const char* rank : {"rank0_", "rank1_", "rank2_", "rank3_"}) documented.insert(rank + q);
  }
  const StepNumbers numbers = ComputeStepNumbers(Steps(), {});
  EXPECT_EQ(std::set<std::string>(numbers.names.begin(), numbers.names.end()), documented);
  EXPECT_EQ(numbers.rows[0].size(), numbers.names.size());
}

TEST(StepNumbersTest, AStepWithoutAForestHasNumbers) {
  std::vector<StepForest> steps(2);
  const StepNumbers numbers = ComputeStepNumbers(steps, {});
  EXPECT_EQ(numbers.rows[1].size(), numbers.names.size());
  for (const float value : numbers.rows[1]) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace teller::dataset
