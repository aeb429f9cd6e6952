#include "src/collect/tick_clock.h"

#include <gtest/gtest.h>

namespace teller::collect {
namespace {

TellerClockTriple Triple(uint64_t ticks, int64_t ns, uint64_t uncertainty = 50) {
  return {ticks, ns, 0, uncertainty};
}

TEST(TickClockTest, InterpolatesBetweenTriples) {
  // 2 ticks a ns in the first second, 4 in the next one.
  const TickClock clock({Triple(1000, 5000), Triple(2'000'001'000, 1'000'005'000),
                         Triple(6'000'001'000, 2'000'005'000)},
                        123);
  EXPECT_EQ(clock.ToNs(1000), 5000);
  EXPECT_EQ(clock.ToNs(1000 + 2000), 6000);
  EXPECT_EQ(clock.ToNs(2'000'001'000 + 4000), 1'000'006'000);
}

TEST(TickClockTest, ExtrapolatesByTheWholeSpanWhenItIsLong) {
  const TickClock clock({Triple(0, 0), Triple(2'000'000'000, 1'000'000'000)}, 123);
  EXPECT_EQ(clock.ToNs(2'000'002'000), 1'000'001'000);
}

TEST(TickClockTest, TakesTheMachinesRateForAShortProcess) {
  const TickClock clock({Triple(1'000'000, 500)}, 0.5);
  EXPECT_EQ(clock.ToNs(1'000'200), 600);
  EXPECT_EQ(clock.ToNs(999'800), 400);
}

TEST(TickClockTest, IgnoresInterruptedReadings) {
  const TickClock clock(
      {Triple(0, 0), Triple(1'000'000'000, 777, 5'000'000), Triple(2'000'000'000, 1'000'000'000)},
      1);
  EXPECT_EQ(clock.ToNs(1'000'000'000), 500'000'000);
}

}  // namespace
}  // namespace teller::collect
