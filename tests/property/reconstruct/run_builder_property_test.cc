// Any two ranks' events, however they cross: the promises of StepForest hold, and the order of
// events does not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "src/core/random.h"
#include "src/reconstruct/run_builder.h"

namespace teller::reconstruct {
namespace {

using trace::Event;
using trace::EventTable;
using trace::Kind;
using trace::Layer;

constexpr int kSteps = 6;
constexpr int64_t kStepNs = 1000, kPeriodNs = 1200;

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random(seed) {
    step_name_ = strings.Intern("execute_context_0(0)_generation_2(2)");
    for (const char* name : {"a", "b", "c", "all_reduce"}) strings.Intern(name);
    for (int rank = 0; rank < 2; ++rank) events.push_back(RankEvents());
  }

  Random random;
  StringInterner strings;
  std::vector<std::vector<Event>> events;  // by rank

 private:
  std::vector<Event> RankEvents() {
    std::vector<Event> all;
    for (int s = 0; s < kSteps; ++s) {
      all.push_back({.begin_ns = s * kPeriodNs,
                     .end_ns = s * kPeriodNs + kStepNs,
                     .name = step_name_,
                     .track = 1});
      if (random.Bernoulli(0.8)) all.push_back(Collective(s));
    }
    for (int64_t count = random.UniformInt(0, 120); count > 0; --count) all.push_back(Anything());
    return all;
  }

  Event Collective(int sequence) {
    Event event = Anything();
    event.layer = Layer::kComm;
    event.kind = Kind::kCollective;
    event.name = strings.Find("all_reduce");
    event.sequence = sequence;
    return event;
  }

  Event Anything() {
    Event event;
    event.begin_ns = random.UniformInt(-200, kSteps * kPeriodNs);
    event.end_ns = event.begin_ns + random.UniformInt(0, random.Bernoulli(0.1) ? 3000 : 150);
    event.name = StringId{static_cast<uint32_t>(random.UniformInt(1, 3))};
    event.track = static_cast<uint32_t>(random.UniformInt(1, 3));
    event.correlation = static_cast<uint64_t>(random.UniformInt(0, 60));
    const int64_t what = random.UniformInt(0, 3);
    event.layer = what == 0 ? Layer::kBackend : what == 1 ? Layer::kHostApi : Layer::kDevice;
    event.kind = what == 0 ? Kind::kOperator : what == 1 ? Kind::kLaunch : Kind::kKernel;
    if (what > 1) event.flags = trace::kFlagOnDevice;
    return event;
  }

  StringId step_name_;
};

RunForest Build(const RandomRun& run) {
  RunBuilder builder(run.strings);
  std::vector<CollectiveRecord> records;
  for (int rank = 0; rank < 2; ++rank) {
    EventTable table;
    for (const Event& event : run.events[static_cast<std::size_t>(rank)]) table.Append(event);
    builder.AddProcess(rank, {.rank = RankId{rank}}, table, ClockMap{});
    const auto more = CollectivesOf(rank, table);
    records.insert(records.end(), more.begin(), more.end());
  }
  return builder.Finish(records, MatchCollectives(records));
}

int64_t UnionNs(std::span<const StepNode> nodes) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const StepNode& node : nodes)
    spans.emplace_back(node.begin_ns, node.begin_ns + node.duration_ns);
  std::ranges::sort(spans);
  int64_t covered_ns = 0, end_ns = INT64_MIN;
  for (const auto& [first, last] : spans) {
    covered_ns += std::max<int64_t>(last - std::max(first, end_ns), 0);
    end_ns = std::max(end_ns, last);
  }
  return covered_ns;
}

void CheckTrack(const StepForest& step, std::size_t track) {
  const auto [first, last] = step.TrackNodes(track);
  ASSERT_LT(first, last) << "a track has nodes";
  const std::span<const StepNode> nodes(step.nodes.data() + first, last - first);
  const bool device = step.tracks[track].device;
  int64_t self_ns = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i].parent == kNoNode, i == 0) << "one root, which comes first";
    EXPECT_EQ(device ? nodes[i].host_self_ns : nodes[i].device_busy_ns, 0);
    EXPECT_GE(device ? nodes[i].device_busy_ns : nodes[i].host_self_ns, 0);
    EXPECT_GE(nodes[i].gap_before_ns, i == 0 ? -1 : 0);
    self_ns += device ? nodes[i].device_busy_ns : nodes[i].host_self_ns;
    if (i == 0) continue;
    const StepNode& parent = step.nodes[Index(nodes[i].parent)];
    EXPECT_LT(Index(nodes[i].parent), first + i);
    EXPECT_EQ(parent.track, nodes[i].track);
    EXPECT_EQ(parent.depth + 1, nodes[i].depth);
    EXPECT_GE(nodes[i].begin_ns, parent.begin_ns);
    EXPECT_LE(nodes[i].begin_ns + nodes[i].duration_ns, parent.begin_ns + parent.duration_ns);
  }
  EXPECT_EQ(self_ns, device ? UnionNs(nodes.subspan(1)) : nodes[0].duration_ns);
}

// A node without its number.
using Shape = std::tuple<int32_t, uint32_t, int64_t, int64_t, int64_t, int64_t, int64_t, int, int>;

std::vector<Shape> ShapesOf(const RunForest& run) {
  std::vector<Shape> shapes;
  for (const StepForest& step : run.steps) {
    for (const StepNode& node : step.nodes) {
      const StepTrack& track = step.tracks[node.track];
      shapes.emplace_back(static_cast<int32_t>(track.rank),
                          static_cast<uint32_t>(Index(node.symbol)), node.begin_ns,
                          node.duration_ns, node.host_self_ns, node.device_busy_ns,
                          node.gap_before_ns, static_cast<int>(node.parent), node.depth);
    }
  }
  return shapes;
}

class RunBuilderPropertyTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RunBuilderPropertyTest, KeepsThePromisesOfStepForest) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  const RunForest run = Build(RandomRun(GetParam()));
  ASSERT_GT(run.steps.size(), 0u);
  for (const StepForest& step : run.steps) {
    for (std::size_t track = 0; track < step.tracks.size(); ++track) CheckTrack(step, track);
    for (const StepEdge& edge : step.edges) {
      ASSERT_LT(Index(edge.from), step.nodes.size());
      ASSERT_LT(Index(edge.to), step.nodes.size());
      const bool same_rank = step.tracks[step.nodes[Index(edge.from)].track].rank ==
                             step.tracks[step.nodes[Index(edge.to)].track].rank;
      EXPECT_EQ(same_rank, edge.type != EdgeType::kCollective);
    }
  }
}

// Symbols are numbered as they are first seen, on a track by track walk that ties of equal events
// cannot change.
TEST_P(RunBuilderPropertyTest, ShuffledEventsGiveTheSameNodes) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  RandomRun run(GetParam());
  const auto shapes = ShapesOf(Build(run));
  for (auto& events : run.events) run.random.Shuffle(std::span<Event>(events));
  EXPECT_EQ(ShapesOf(Build(run)), shapes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RunBuilderPropertyTest, testing::Range<uint64_t>(1, 101));

}  // namespace
}  // namespace teller::reconstruct
