#include "src/reconstruct/collectives.h"

#include <gtest/gtest.h>

#include <vector>

namespace teller::reconstruct {
namespace {

constexpr StringId kComm{0}, kReduce{1}, kGather{2};

CollectiveRecord Record(int process, StringId name, int32_t sequence, int64_t begin_ns) {
  return {process, 0, kComm, name, sequence, begin_ns, begin_ns + 10};
}

std::vector<std::vector<std::size_t>> Match(const std::vector<CollectiveRecord>& records) {
  std::vector<std::vector<std::size_t>> groups;
  for (const MatchedCollective& group : MatchCollectives(records)) groups.push_back(group.records);
  return groups;
}

TEST(MatchCollectivesTest, BySequenceWhereItIsKnown) {
  // Rank 1 lost sequence 0; order alone would match 0 with 1.
  EXPECT_EQ(Match({Record(0, kReduce, 0, 0), Record(0, kReduce, 1, 20), Record(1, kReduce, 1, 21)}),
            (std::vector<std::vector<std::size_t>>{{1, 2}}));
}

TEST(MatchCollectivesTest, ByNameAndOrderElse) {
  EXPECT_EQ(
      Match({Record(0, kReduce, -1, 0), Record(0, kGather, -1, 20), Record(0, kReduce, -1, 40),
             Record(1, kGather, -1, 21), Record(1, kReduce, -1, 41)}),
      (std::vector<std::vector<std::size_t>>{{0, 4}, {1, 3}}));
}

TEST(MatchCollectivesTest, TheEarlierOfTwoRecordsOfOneProcessCounts) {
  EXPECT_EQ(Match({Record(0, kReduce, 5, 0), Record(0, kReduce, 5, 20), Record(1, kReduce, 5, 1)}),
            (std::vector<std::vector<std::size_t>>{{0, 2}}));
}

TEST(CollectivesOfTest, LeavesOutJoinedOpenAndUntimedRecords) {
  trace::EventTable events;
  const auto add = [&](int64_t begin_ns, uint16_t flags) {
    events.Append({.begin_ns = begin_ns,
                   .end_ns = begin_ns + 1,
                   .name = kReduce,
                   .layer = trace::Layer::kComm,
                   .kind = trace::Kind::kCollective,
                   .flags = flags});
  };
  add(30, 0);
  add(10, trace::kFlagJoined);
  add(11, trace::kFlagOpen);
  add(12, trace::kFlagNoTiming);
  add(20, trace::kFlagOnDevice);
  events.Append(
      {.name = kReduce, .layer = trace::Layer::kComm, .kind = trace::Kind::kPointToPoint});
  const auto records = CollectivesOf(3, events);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].event, 4u);
  EXPECT_EQ(records[1].event, 0u);
  EXPECT_EQ(records[1].process, 3);
}

TEST(EndsTogetherTest, KnowsSpellings) {
  EXPECT_TRUE(EndsTogether("gloo:all_reduce"));
  EXPECT_TRUE(EndsTogether("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"));
  EXPECT_TRUE(EndsTogether("nccl:_reduce_scatter_base"));
  EXPECT_FALSE(EndsTogether("gloo:broadcast"));
  EXPECT_FALSE(EndsTogether("gloo:gather"));
}

}  // namespace
}  // namespace teller::reconstruct
