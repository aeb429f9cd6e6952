// Any set of events, however they cross: the tree does not depend on their order, and its times add
// up.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "src/core/random.h"
#include "src/reconstruct/call_tree.h"

namespace teller::reconstruct {
namespace {

using trace::Event;

// Few distinct times and names, so that ties of every kind are common.
std::vector<Event> RandomEvents(Random& random) {
  std::vector<Event> events;
  const int64_t count = random.UniformInt(0, 60), range = random.UniformInt(5, 200);
  for (int64_t i = 0; i < count; ++i) {
    Event event;
    event.begin_ns = random.UniformInt(-range, range);
    event.end_ns = event.begin_ns + random.UniformInt(-2, range);
    event.layer = static_cast<trace::Layer>(random.UniformInt(0, 4));
    event.kind = static_cast<trace::Kind>(random.UniformInt(0, 14));
    event.name = StringId{static_cast<uint32_t>(random.UniformInt(0, 3))};
    event.track = static_cast<uint32_t>(random.UniformInt(1, 3));
    event.correlation = static_cast<uint64_t>(random.UniformInt(0, 2));
    if (random.Bernoulli(0.3)) event.flags = trace::kFlagOnDevice;
    events.push_back(event);
  }
  return events;
}

trace::EventTable TableOf(const std::vector<Event>& events) {
  trace::EventTable table;
  for (const Event& event : events) table.Append(event);
  return table;
}

// A node without its position in the input.
using Shape =
    std::tuple<bool, uint32_t, int64_t, int64_t, int64_t, int, int, int, uint64_t, int32_t>;

std::vector<Shape> ShapesOf(const trace::EventTable& events, const std::vector<CallTree>& trees) {
  std::vector<Shape> shapes;
  for (const CallTree& tree : trees) {
    for (std::size_t i = 0; i < tree.size(); ++i) {
      const uint32_t e = tree.event[i];
      shapes.emplace_back(tree.key.device, tree.key.track, tree.begin_ns[i], tree.end_ns[i],
                          tree.self_ns[i], static_cast<int>(events.layer[e]),
                          static_cast<int>(events.kind[e]), static_cast<int>(Index(events.name[e])),
                          events.correlation[e], tree.parent[i]);
    }
  }
  return shapes;
}

class CallTreePropertyTest : public testing::TestWithParam<uint64_t> {};

TEST_P(CallTreePropertyTest, ShuffledInputGivesTheSameTree) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  Random random(GetParam());
  std::vector<Event> events = RandomEvents(random);
  TreeStats stats, shuffled_stats;
  const trace::EventTable table = TableOf(events);
  const auto shapes = ShapesOf(table, BuildCallTrees(table, stats));
  random.Shuffle(std::span<Event>(events));
  const trace::EventTable shuffled = TableOf(events);
  EXPECT_EQ(ShapesOf(shuffled, BuildCallTrees(shuffled, shuffled_stats)), shapes);
  EXPECT_EQ(stats.cut_to_parent, shuffled_stats.cut_to_parent);
  EXPECT_EQ(stats.cut_to_sibling, shuffled_stats.cut_to_sibling);
}

TEST_P(CallTreePropertyTest, SelfTimesAddUpAndChildrenAreInsideAndDisjoint) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  Random random(GetParam());
  const std::vector<Event> events = RandomEvents(random);
  TreeStats stats;
  std::size_t nodes = 0;
  for (const CallTree& tree : BuildCallTrees(TableOf(events), stats)) {
    nodes += tree.size();
    int64_t roots_ns = 0;
    std::map<int32_t, int64_t> cursor_ns;  // end of the last child, by parent
    for (std::size_t i = 0; i < tree.size(); ++i) {
      EXPECT_GE(tree.self_ns[i], 0);
      EXPECT_LE(tree.begin_ns[i], tree.end_ns[i]);
      const int32_t parent = tree.parent[i];
      ASSERT_LT(parent, static_cast<int32_t>(i));
      if (parent < 0) {
        roots_ns += tree.end_ns[i] - tree.begin_ns[i];
        EXPECT_EQ(tree.depth[i], 0);
      } else {
        const auto p = static_cast<std::size_t>(parent);
        EXPECT_GE(tree.begin_ns[i], tree.begin_ns[p]);
        EXPECT_LE(tree.end_ns[i], tree.end_ns[p]);
        EXPECT_EQ(tree.depth[i], tree.depth[p] + 1);
        EXPECT_LE(tree.next[i], tree.next[p]);
      }
      if (cursor_ns.contains(parent)) {
        EXPECT_GE(tree.begin_ns[i], cursor_ns[parent]);
      }
      cursor_ns[parent] = tree.end_ns[i];
    }
    EXPECT_EQ(std::accumulate(tree.self_ns.begin(), tree.self_ns.end(), int64_t{0}), roots_ns);
  }
  EXPECT_EQ(nodes, events.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, CallTreePropertyTest, testing::Range<uint64_t>(1, 201));

}  // namespace
}  // namespace teller::reconstruct
