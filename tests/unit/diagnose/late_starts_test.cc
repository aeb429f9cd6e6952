#include "src/diagnose/late_starts.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/diagnose/not_looked_at.h"
#include "src/diagnose/page_nodes.h"

namespace teller::diagnose {
namespace {

using reconstruct::EdgeType;
using reconstruct::StepForest;
using reconstruct::StepNode;
using trace::Kind;
using trace::Layer;

constexpr SymbolId kStep{0}, kWork{1}, kReduce{2};

/// A rank's step: an operator, then a collective that ends at `end_ns` on the base clock.
struct RankPart {
  int64_t begin_ns = 0;  ///< of its step, base clock
  int64_t work_ns = 0;
  int64_t end_ns = 0;
};

StepForest Forest(const std::vector<RankPart>& parts) {
  StepForest step;
  std::vector<NodeId> collectives;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const RankPart& part = parts[r];
    const RankId rank{static_cast<int32_t>(r)};
    const auto track = static_cast<uint16_t>(step.tracks.size());
    const NodeId root{static_cast<int32_t>(step.nodes.size())};
    step.ranks.push_back(rank);
    step.rank_begin_ns.push_back(part.begin_ns);
    step.rank_end_ns.push_back(part.end_ns);
    step.tracks.push_back({.rank = rank});
    const int64_t length_ns = part.end_ns - part.begin_ns;
    step.nodes.push_back(
        {.symbol = kStep, .track = track, .duration_ns = length_ns, .gap_before_ns = -1});
    step.nodes.push_back({.symbol = kWork,
                          .track = track,
                          .layer = Layer::kBackend,
                          .kind = Kind::kOperator,
                          .parent = root,
                          .depth = 1,
                          .duration_ns = part.work_ns});
    collectives.push_back(NodeId{static_cast<int32_t>(step.nodes.size())});
    step.nodes.push_back({.symbol = kReduce,
                          .track = track,
                          .layer = Layer::kComm,
                          .kind = Kind::kCollective,
                          .parent = root,
                          .depth = 1,
                          .begin_ns = part.work_ns,
                          .duration_ns = length_ns - part.work_ns});
  }
  const auto begin = [&](NodeId node) {
    const StepNode& at = step.nodes[Index(node)];
    return step.rank_begin_ns[at.track] + at.begin_ns;
  };
  const NodeId last = *std::max_element(collectives.begin(), collectives.end(),
                                        [&](NodeId a, NodeId b) { return begin(a) < begin(b); });
  for (const NodeId node : collectives) {
    if (node != last) step.edges.push_back({last, node, EdgeType::kCollective});
  }
  return step;
}

std::vector<LateStart> Find(const StepForest& step, const LateStartOptions& options = {}) {
  return FindLateStarts(step, localize::ReadStep(step), options);
}

TEST(FindLateStartsTest, NamesTheLastStarterAndWhatItDidBefore) {
  const StepForest step = Forest({{0, 100, 1000}, {0, 110, 1000}, {0, 700, 1000}});
  const auto found = Find(step);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, RankId{2});
  EXPECT_EQ(found[0].late_ns, 600);  // after 100, the lower median of the others
  EXPECT_EQ(found[0].transfer_ns, 300);
  ASSERT_TRUE(found[0].cause);
  EXPECT_EQ(step.nodes[Index(found[0].cause->node)].symbol, kWork);
  EXPECT_EQ(found[0].cause->observed_ns, 700);
  EXPECT_EQ(found[0].cause->expected_ns, 100);
}

TEST(FindLateStartsTest, AStepBegunLateIsTheCause) {
  const auto found = Find(Forest({{0, 100, 1000}, {0, 110, 1000}, {500, 100, 1000}}));
  ASSERT_TRUE(found[0].cause);
  EXPECT_EQ(found[0].cause->node, NodeId{6});  // the root of rank 2
  EXPECT_EQ(found[0].cause->observed_ns, 500);
}

TEST(FindLateStartsTest, ARecordingBegunLateIsNoLateness) {
  const auto found = Find(Forest({{0, 100, 1000}, {0, 110, 1000}, {500, 100, 1000}}),
                          {.steps_begin_together = false});
  EXPECT_EQ(found[0].late_ns, 0);
  EXPECT_FALSE(found[0].cause);
}

TEST(FindLateStartsTest, TheLongestCollectiveIsNotTheLateOne) {
  const StepForest step = Forest({{0, 100, 1000}, {0, 900, 1000}});
  EXPECT_EQ(Find(step)[0].rank, RankId{1});  // 100 ns of collective against 900
}

TEST(FindLateStartsTest, CausesAreNotSoughtBelowTheLeast) {
  EXPECT_FALSE(Find(Forest({{0, 100, 1000}, {0, 700, 1000}}), {.least_ns = 601})[0].cause);
}

TEST(ChoosePageNodesTest, KeepsTheLongestAndWhatIsWantedWithAncestors) {
  const StepForest step = Forest({{0, 100, 1000}, {0, 700, 1000}});
  EXPECT_EQ(ChoosePageNodes(step, {}, 6).size(), 6u);
  // Roots are the longest; the wanted node stands beside them.
  const std::vector<NodeId> wanted{NodeId{1}};
  EXPECT_EQ(ChoosePageNodes(step, wanted, 2), (std::vector{NodeId{0}, NodeId{1}, NodeId{3}}));
}

TEST(FindNotLookedAtTest, TellsLossesAndPassesOverTheRest) {
  const std::vector<std::pair<std::string, int64_t>> counters{{"log_lines_attached", 5},
                                                              {"trace_dropped_ring_full", 7},
                                                              {"events_too_deep", 0},
                                                              {"events_without_timing", 3}};
  const auto found = FindNotLookedAt(counters);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].why, "lost while the trace was recorded or imported (dropped_ring_full)");
  EXPECT_EQ(found[1].count, 3);
}

}  // namespace
}  // namespace teller::diagnose
