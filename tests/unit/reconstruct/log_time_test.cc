#include "src/reconstruct/log_time.h"

#include <gtest/gtest.h>

#include "src/reconstruct/log_clock.h"

namespace teller::reconstruct {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond;
// 2026-12-01T12:00:00Z, by 'date -u -d 2026-12-01T12:00 +%s'.
constexpr int64_t kNoon = 1'796'126'400 * kSecond;

int64_t Resolved(std::string_view text, int32_t zone_minutes = 0) {
  const auto time = ReadLogTime(text);
  return time ? ResolveLogTime(*time, kNoon + kHour, zone_minutes).value_or(-1) : -2;
}

TEST(LogTimeTest, ReadsEveryForm) {
  for (const char* text :
       {"2026-12-01 12:00:00", "2026/12/01 12:00:00", "12-01 12:00:00", "1201 12:00:00", "12:00:00",
        "2026-12-01T12:00:00Z", "2026-12-01 12:00:00 UTC", "2026-12-01T13:00:00+01:00",
        "2026-12-01 06:30:00 -0530", "2026-12-01T12:00:00+00"}) {
    EXPECT_EQ(Resolved(text), kNoon) << text;
  }
}

TEST(LogTimeTest, KeepsFractionsAndTheirResolution) {
  EXPECT_EQ(Resolved("2026-12-01 12:00:00,123"), kNoon + 123'000'000);
  EXPECT_EQ(Resolved("1201 12:00:00.123456"), kNoon + 123'456'000);
  EXPECT_EQ(ReadLogTime("12:00:00.5")->resolution_ns, kSecond / 10);
  EXPECT_EQ(ReadLogTime("12:00:00")->resolution_ns, kSecond);
}

TEST(LogTimeTest, AStatedZoneCountsMoreThanTheAssumedOne) {
  EXPECT_EQ(Resolved("12-01 13:00:00", 60), kNoon);
  EXPECT_EQ(Resolved("12-01T12:00:00Z", 60), kNoon);
}

TEST(LogTimeTest, YearAndDayAreTheNearest) {
  const int64_t new_year = 1'798'761'600 * kSecond;  // 2027-01-01T00:00:00Z
  EXPECT_EQ(ResolveLogTime(*ReadLogTime("12-31 23:59:59"), new_year + kSecond, 0),
            new_year - kSecond);
  EXPECT_EQ(ResolveLogTime(*ReadLogTime("23:59:59"), new_year + kSecond, 0), new_year - kSecond);
}

TEST(LogTimeTest, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "12", "12:00", "25:00:00", "12:61:00", "13-01 12:00:00", "12-32 12:00:00", "2026-12-01",
        "12:00:00 CEST", "12:00:00.", "12:00:00+99:00", "noon"}) {
    EXPECT_FALSE(ReadLogTime(text)) << text;
  }
  EXPECT_FALSE(ResolveLogTime(*ReadLogTime("2026-02-30 12:00:00"), kNoon, 0));
}

TEST(StatedClockTest, TakesTheZoneThatBringsMostLinesIntoTheRun) {
  const std::vector<LogTime> lines(3, *ReadLogTime("12-01 17:30:00"));  // India's
  const StatedClock clock(kNoon - kSecond, kNoon + kSecond, lines);
  EXPECT_TRUE(clock.zone_guessed());
  const auto moment = clock.BaseTime(lines[0]);
  ASSERT_TRUE(moment);
  EXPECT_EQ(moment->begin_ns, kNoon);
  EXPECT_EQ(moment->end_ns, kNoon + kSecond - 1);
  EXPECT_FALSE(StatedClock(kNoon, kNoon + kSecond, {}).zone_guessed());
}

}  // namespace
}  // namespace teller::reconstruct
