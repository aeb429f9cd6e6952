#include "src/collect/collective_join.h"

#include <gtest/gtest.h>

namespace teller::collect {
namespace {

CommRecord Host(uint64_t index, int64_t begin_ns, int64_t end_ns,
                const char* name = "gloo:all_reduce") {
  return {index, begin_ns, end_ns, name, false, "", -1};
}
CommRecord Device(uint64_t index, int64_t begin_ns, int64_t end_ns, int32_t sequence,
                  const char* name = "all_reduce") {
  return {index, begin_ns, end_ns, name, true, "tp", sequence};
}

TEST(JoinCollectivesTest, GivesTheHostRecordWhatTheEnclosingDeviceRecordKnows) {
  const auto patches = JoinCollectives(
      {Device(0, 100, 200, 7), Host(1, 110, 190), Device(2, 300, 400, 8), Host(3, 301, 399)});
  ASSERT_EQ(patches.size(), 2u);
  EXPECT_TRUE(patches.at(1).joined);
  EXPECT_EQ(patches.at(1).comm, "tp");
  EXPECT_EQ(patches.at(1).sequence, 7);
  EXPECT_EQ(patches.at(3).sequence, 8);
}

TEST(JoinCollectivesTest, NumbersUnjoinedRecordsByBeginAndName) {
  const auto patches =
      JoinCollectives({Host(0, 300, 310), Host(1, 100, 110), Host(2, 200, 210, "gloo:all_gather")});
  EXPECT_EQ(patches.at(1).sequence, 0);
  EXPECT_EQ(patches.at(0).sequence, 1);
  EXPECT_EQ(patches.at(2).sequence, 0);
  EXPECT_FALSE(patches.at(0).joined);
  EXPECT_EQ(patches.at(0).comm, "gloo");
}

TEST(JoinCollectivesTest, LeavesOtherOperationsAndOtherTimesApart) {
  const auto patches = JoinCollectives({Device(0, 100, 200, 7, "all_gather"), Host(1, 110, 190),
                                        Device(2, 300, 400, 8), Host(3, 390, 410)});
  EXPECT_FALSE(patches.at(1).joined);
  EXPECT_FALSE(patches.at(3).joined);  // it ends after the device record: not called from there
}

TEST(JoinCollectivesTest, UsesEachDeviceRecordOnce) {
  const auto patches =
      JoinCollectives({Device(0, 100, 200, 7), Host(1, 110, 190), Host(2, 120, 180)});
  EXPECT_TRUE(patches.at(1).joined);
  EXPECT_FALSE(patches.at(2).joined);
}

TEST(JoinCollectivesTest, KeepsWhatARecordAlreadyKnows) {
  CommRecord known = Host(0, 1, 2, "nccl:all_reduce");
  known.comm = "0x1234";
  known.sequence = 41;
  const auto patches = JoinCollectives({known});
  EXPECT_EQ(patches.at(0).comm, "0x1234");
  EXPECT_EQ(patches.at(0).sequence, 41);
}

TEST(CollectiveOperationTest, DropsBackendAndSpelling) {
  EXPECT_EQ(CollectiveOperation("gloo:all_reduce"), "allreduce");
  EXPECT_EQ(CollectiveOperation("c10d::allreduce_"), "allreduce");
  EXPECT_EQ(CollectiveOperation("all_reduce"), "allreduce");
}

}  // namespace
}  // namespace teller::collect
