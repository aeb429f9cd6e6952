#include "tests/support/forest_generator.h"

#include <gtest/gtest.h>

#include <map>

namespace teller::testing_support {
namespace {

using reconstruct::EdgeType;
using reconstruct::StepForest;
using reconstruct::StepNode;

void ExpectNests(const StepForest& step) {
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const StepNode& node = step.nodes[i];
    ASSERT_GE(node.duration_ns, 0);
    ASSERT_GE(node.host_self_ns, 0);
    if (node.parent == kNoNode) {
      ASSERT_EQ(node.depth, 0);
      continue;
    }
    ASSERT_LT(Index(node.parent), i);
    const StepNode& parent = step.nodes[Index(node.parent)];
    ASSERT_EQ(parent.track, node.track);
    ASSERT_EQ(parent.depth + 1, node.depth);
    ASSERT_GE(node.begin_ns, parent.begin_ns);
    ASSERT_LE(node.begin_ns + node.duration_ns, parent.begin_ns + parent.duration_ns);
  }
}

void ExpectTimesAddUp(const StepForest& step) {
  std::map<int, int64_t> self, root, busy, busy_union;
  for (const StepNode& node : step.nodes) {
    self[node.track] += node.host_self_ns;
    busy[node.track] += node.device_busy_ns;
    if (node.parent == kNoNode) root[node.track] = node.duration_ns;
    if (node.depth == 1) busy_union[node.track] += node.duration_ns;
  }
  for (std::size_t t = 0; t < step.tracks.size(); ++t) {
    const int track = static_cast<int>(t);
    if (step.tracks[t].device) {
      EXPECT_EQ(busy[track], busy_union[track]);
      EXPECT_EQ(self[track], 0);
    } else {
      EXPECT_EQ(self[track], root[track]);
      EXPECT_EQ(busy[track], 0);
    }
  }
}

TEST(ForestGeneratorTest, KeepsThePromisesOfStepForest) {
  for (const bool device : {true, false}) {
    SCOPED_TRACE(device);
    const auto file = GenerateRun({.seed = 7, .steps = 40, .device = device});
    ASSERT_EQ(file.run.steps.size(), 40u);
    for (const StepForest& step : file.run.steps) {
      ExpectNests(step);
      ExpectTimesAddUp(step);
    }
  }
}

TEST(ForestGeneratorTest, MatchedCollectivesEndTogether) {
  const auto file = GenerateRun({.seed = 3, .steps = 5});
  int matched = 0;
  for (const StepForest& step : file.run.steps) {
    for (const auto& edge : step.edges) {
      if (edge.type != EdgeType::kCollective) continue;
      const StepNode& last = step.nodes[Index(edge.from)];
      const StepNode& other = step.nodes[Index(edge.to)];
      const auto rank_begin = [&](const StepNode& node) {
        return step.rank_begin_ns[Index(step.tracks[node.track].rank)];
      };
      const int64_t last_begin = rank_begin(last) + last.begin_ns;
      const int64_t other_begin = rank_begin(other) + other.begin_ns;
      EXPECT_EQ(last_begin + last.duration_ns, other_begin + other.duration_ns);
      EXPECT_GE(last_begin + last.entry_delay_ns, other_begin + other.entry_delay_ns);
      EXPECT_EQ(last.sequence, other.sequence);
      ++matched;
    }
  }
  EXPECT_EQ(matched, 5 * 2 * 2);  // steps x layers x all-reduces a layer
}

TEST(ForestGeneratorTest, LabelsHoldInjectedTimeAndHitNodes) {
  const auto file = GenerateRun({.steps = 60,
                                 .delays = {{.first_step = 50,
                                             .last_step = 55,
                                             .rank = RankId{1},
                                             .symbol = "paged_attention",
                                             .delay_ns = 100'000}}});
  EXPECT_EQ(file.labels[49].status, dataset::LabelStatus::kNegative);
  const dataset::StepLabel& label = file.labels[50];
  EXPECT_EQ(label.status, dataset::LabelStatus::kPositive);
  EXPECT_EQ(label.recorded_ns, (std::vector<int64_t>{0, 200'000}));  // one a layer, two layers
  ASSERT_EQ(label.hit_nodes.size(), 2u);
  for (const NodeId hit : label.hit_nodes) {
    const StepNode& node = file.run.steps[50].nodes[Index(hit)];
    EXPECT_EQ(file.run.symbols.View(StringId{static_cast<uint32_t>(node.symbol)}),
              "paged_attention");
    EXPECT_GE(node.duration_ns, 100'000);
  }
}

TEST(ForestGeneratorTest, SameOptionsGiveTheSameRun) {
  const auto a = GenerateRun({.seed = 5, .steps = 8}), b = GenerateRun({.seed = 5, .steps = 8});
  for (std::size_t s = 0; s < 8; ++s) {
    EXPECT_EQ(a.run.steps[s].end_ns, b.run.steps[s].end_ns);
    EXPECT_EQ(a.run.steps[s].nodes.size(), b.run.steps[s].nodes.size());
  }
}

}  // namespace
}  // namespace teller::testing_support
