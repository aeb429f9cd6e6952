#include <gtest/gtest.h>

#include <map>

#include "src/core/random.h"
#include "src/slice/slice.h"
#include "tests/support/forest_generator.h"

namespace teller::slice {
namespace {

using localize::StepSuspects;
using reconstruct::StepForest;

/// Random suspects: the slice must hold its promises whatever the localiser says.
StepSuspects RandomSuspects(Random& random, const StepForest& step) {
  StepSuspects suspects;
  const auto last = static_cast<int64_t>(step.nodes.size()) - 1;
  std::vector<uint8_t> used(step.nodes.size(), 0);
  for (int i = 0; i < 12; ++i) {
    const NodeId node{static_cast<int32_t>(random.UniformInt(0, last))};
    if (used[Index(node)]++) continue;
    suspects.candidates.push_back({.node = node, .z = static_cast<float>(20 - i)});
  }
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    suspects.node_residual.push_back(static_cast<float>(random.Normal()));
  }
  return suspects;
}

SliceOptions RandomOptions(Random& random) {
  return {.suspects = static_cast<int>(random.UniformInt(0, 8)),
          .node_budget = static_cast<int>(random.UniformInt(0, 300)),
          .neighbours = static_cast<int>(random.UniformInt(0, 4)),
          .instances = static_cast<int>(random.UniformInt(0, 3)),
          .ancestors = random.Bernoulli(0.7),
          .subtrees = random.Bernoulli(0.7),
          .peers = random.Bernoulli(0.7),
          .fill = random.Bernoulli(0.5)};
}

void ExpectTree(const StepForest& step, const CausalSlice& slice) {
  for (std::size_t i = 0; i < slice.nodes.size(); ++i) {
    const SliceNode& kept = slice.nodes[i];
    ASSERT_TRUE(i == 0 || slice.nodes[i - 1].node < kept.node);
    const auto& node = step.nodes[Index(kept.node)];
    if (kept.parent < 0) {
      ASSERT_EQ(node.parent, kNoNode);
      ASSERT_EQ(kept.depth, 0);
      continue;
    }
    ASSERT_LT(static_cast<std::size_t>(kept.parent), i);
    const SliceNode& parent = slice.nodes[static_cast<std::size_t>(kept.parent)];
    ASSERT_EQ(kept.depth, parent.depth + 1);
    ASSERT_EQ(kept.elided, parent.node != node.parent);
    bool ancestor = false;
    for (NodeId at = node.parent; at != kNoNode; at = step.nodes[Index(at)].parent) {
      ancestor |= at == parent.node;
    }
    ASSERT_TRUE(ancestor);
  }
}

void ExpectTimesAddUp(const StepForest& step, const CausalSlice& slice) {
  std::map<int, int64_t> host, device;
  for (const auto& node : step.nodes) {
    host[node.track] += node.host_self_ns;
    device[node.track] += node.device_busy_ns;
  }
  for (const SliceNode& kept : slice.nodes) {
    const auto& node = step.nodes[Index(kept.node)];
    host[node.track] -= node.host_self_ns + kept.elided_host_ns;
    device[node.track] -= node.device_busy_ns + kept.elided_device_ns;
  }
  for (const auto& [track, left] : host) ASSERT_EQ(left, 0) << "track " << track;
  for (const auto& [track, left] : device) ASSERT_EQ(left, 0) << "track " << track;
}

TEST(SlicePropertyTest, IsATreeWithinBudgetThatLosesNoTime) {
  const auto file = testing_support::GenerateRun({.seed = 9, .steps = 20});
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const StepForest& step = file.run.steps[seed % 20];
    const StepSuspects suspects = RandomSuspects(random, step);
    const SliceOptions options = RandomOptions(random);
    const CausalSlice slice = CutSlice(step, suspects, options);
    ASSERT_LE(
        slice.nodes.size(),
        std::max<std::size_t>(step.tracks.size(), static_cast<std::size_t>(options.node_budget)));
    ExpectTree(step, slice);
    ExpectTimesAddUp(step, slice);
    for (const auto& edge : slice.edges) {
      ASSERT_LT(Index(edge.from), slice.nodes.size());
      ASSERT_LT(Index(edge.to), slice.nodes.size());
    }
    ASSERT_EQ(CutSlice(step, suspects, options).nodes, slice.nodes);
  }
}

TEST(SlicePropertyTest, KeepsSuspectsAncestorsPeersAndNeighbours) {
  const auto file = testing_support::GenerateRun({.seed = 9, .steps = 3});
  const StepForest& step = file.run.steps[1];
  // The second operator below 'forward' of rank 1.
  std::size_t node = 0;
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const auto symbol =
        file.run.symbols.View(StringId{static_cast<uint32_t>(step.nodes[i].symbol)});
    if (symbol == "paged_attention" && step.tracks[step.nodes[i].track].rank == RankId{1}) node = i;
  }
  StepSuspects suspects;
  suspects.candidates.push_back({.node = NodeId{static_cast<int32_t>(node)}, .z = 9});
  suspects.node_residual.assign(step.nodes.size(), 0);
  const CausalSlice slice =
      CutSlice(step, suspects, {.suspects = 1, .node_budget = 60, .fill = false});
  std::map<std::string, int> symbols_of_rank[2];
  int chosen = 0, elided = 0;
  for (const SliceNode& kept : slice.nodes) {
    const auto& at = step.nodes[Index(kept.node)];
    ++symbols_of_rank[Index(step.tracks[at.track].rank)][std::string(
        file.run.symbols.View(StringId{static_cast<uint32_t>(at.symbol)}))];
    chosen += kept.suspect == 1;
    elided += kept.elided;
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(elided, 0);
  EXPECT_EQ(symbols_of_rank[1]["forward"], 1);           // ancestor
  EXPECT_EQ(symbols_of_rank[1]["launch"], 1);            // subtree
  EXPECT_EQ(symbols_of_rank[1]["attention_kernel"], 1);  // what it launched
  EXPECT_EQ(symbols_of_rank[1]["rotary_embedding"], 1);  // neighbours
  EXPECT_GE(symbols_of_rank[1]["linear"], 1);
  EXPECT_GE(symbols_of_rank[1]["c10d::all_reduce"], 1);  // communication around it
  EXPECT_GE(symbols_of_rank[0]["c10d::all_reduce"], 1);  // on the peer
  EXPECT_GE(symbols_of_rank[0].size(), 4u);              // and what led there
}

TEST(SlicePropertyTest, WholeStepFitsALargeBudget) {
  const auto file = testing_support::GenerateRun({.seed = 2, .steps = 2});
  const StepForest& step = file.run.steps[0];
  const CausalSlice slice = CutSlice(step, {}, {.node_budget = 100'000});
  EXPECT_EQ(slice.nodes.size(), step.nodes.size());
  EXPECT_EQ(slice.edges.size(), step.edges.size());
  EXPECT_EQ(slice.logs.size(), 2u);
  EXPECT_EQ(CountKept(slice, std::vector<NodeId>{NodeId{0}, NodeId{5}}), 2u);
  EXPECT_TRUE(CutSlice({}, {}, {}).nodes.empty());
}

}  // namespace
}  // namespace teller::slice
