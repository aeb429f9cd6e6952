#include <gtest/gtest.h>

#include "fault_injection/packet_switch.h"

namespace teller::fault_injection {
namespace {

std::vector<uint8_t> Packet(std::size_t bytes) { return std::vector<uint8_t>(bytes); }

TEST(LinkQueueTest, PassesOnAtOnceWithoutAPolicy) {
  LinkQueue queue({}, 1);
  ASSERT_TRUE(queue.Push(1000, Packet(60)));
  HeldPacket packet;
  EXPECT_TRUE(queue.Pop(1000, packet));
  EXPECT_EQ(packet.leaves_ns, 1000);
  EXPECT_EQ(queue.NextNs(), INT64_MAX);
}

TEST(LinkQueueTest, HoldsForTheDelay) {
  LinkQueue queue({.delay_ns = 500}, 1);
  ASSERT_TRUE(queue.Push(1000, Packet(60)));
  HeldPacket packet;
  EXPECT_FALSE(queue.Pop(1499, packet));
  EXPECT_EQ(queue.NextNs(), 1500);
  EXPECT_TRUE(queue.Pop(1500, packet));
}

TEST(LinkQueueTest, JitterKeepsTheOrderAndStaysInItsRange) {
  LinkQueue queue({.jitter_ns = 1000}, 7);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(queue.Push(i * 10, Packet(60)));
  int64_t last_ns = 0;
  HeldPacket packet;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(queue.Pop(1'000'000, packet));
    EXPECT_EQ(packet.arrived_ns, i * 10);
    EXPECT_GE(packet.leaves_ns, std::max<int64_t>(last_ns, i * 10));
    EXPECT_LE(packet.leaves_ns, i * 10 + 1000);
    last_ns = packet.leaves_ns;
  }
}

TEST(LinkQueueTest, RateSendsOnePacketAfterTheOther) {
  // 1,000 bytes at 1 MB/s take a millisecond; the second waits for the first.
  LinkQueue queue({.bytes_per_second = 1e6}, 1);
  ASSERT_TRUE(queue.Push(0, Packet(1000)));
  ASSERT_TRUE(queue.Push(0, Packet(1000)));
  HeldPacket packet;
  ASSERT_TRUE(queue.Pop(5'000'000, packet));
  EXPECT_EQ(packet.leaves_ns, 1'000'000);
  ASSERT_TRUE(queue.Pop(5'000'000, packet));
  EXPECT_EQ(packet.leaves_ns, 2'000'000);
}

TEST(LinkQueueTest, LosesAboutTheShareThatWasAskedFor) {
  LinkQueue queue({.loss = 0.2}, 3);
  int lost = 0;
  HeldPacket packet;
  for (int i = 0; i < 10'000; ++i) {
    if (!queue.Push(i, Packet(60))) ++lost;
    queue.Pop(i, packet);
  }
  EXPECT_NEAR(lost, 2000, 200);  // five standard deviations of 40
}

TEST(LinkQueueTest, FlapDropsEverythingWhileItIsDown) {
  LinkQueue queue({.down_ns = 1000, .up_mean_ns = 4000}, 5);
  int drops = 0, flaps = 0;
  bool was_down = false;
  HeldPacket packet;
  for (int64_t now_ns = 1; now_ns < 1'000'000; now_ns += 10, queue.Pop(now_ns, packet)) {
    const bool down = !queue.Push(now_ns, Packet(60));
    drops += down;
    flaps += down && !was_down;
    was_down = down;
  }
  // 1,000 of 5,000 ns in the mean: a fifth of 100,000 packets, in about 200 pieces.
  EXPECT_NEAR(drops, 20'000, 3'000);
  EXPECT_NEAR(flaps, 200, 30);
  EXPECT_NEAR(static_cast<double>(drops) / flaps, 100, 2);
}

}  // namespace
}  // namespace teller::fault_injection
