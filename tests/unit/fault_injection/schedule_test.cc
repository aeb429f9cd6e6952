#include "fault_injection/schedule.h"

#include <gmock/gmock.h>

#include <functional>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

using ::testing::HasSubstr;

constexpr char kSchedule[] =
    "schema_version: 1\n"
    "calibration_s: 4\n"
    "duration_s: 20\n"
    "step_ms: 10\n"
    "stretch_steps: [60, 80]\n"
    "faults:\n"
    "  - kind: collective_delay\n"
    "    targets: [{symbol: 'all_reduce*', calls_per_step: 10}]\n"
    "  - kind: process_pause\n"
    "    ranks: [1]\n";

Schedule Read(const std::string& yaml, int ranks = 2) {
  return ReadSchedule(config::Node::Parse(yaml, "x.yaml"), ranks);
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(ReadScheduleTest, FillsInKindsTargetsAndRanks) {
  const Schedule schedule = Read(kSchedule);
  EXPECT_EQ(schedule.calibration_ns, 4'000'000'000);
  ASSERT_EQ(schedule.kinds.size(), 2u);
  const FaultTarget& target = schedule.kinds[0].targets.front();
  EXPECT_EQ(target.layer, "comm");
  EXPECT_EQ(target.symbol, "all_reduce*");
  EXPECT_EQ(target.culprit_symbol, "all_reduce");
  EXPECT_EQ(schedule.kinds[0].ranks.size(), 2u);
  EXPECT_EQ(schedule.kinds[1].ranks, std::vector<RankId>{RankId{1}});
  EXPECT_EQ(schedule.kinds[1].parameters.at("gap_low_ms"), 10);
}

TEST(ReadScheduleTest, NamesThePlaceOfWhatIsWrong) {
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "process_pause", "process_paws")); }),
              HasSubstr("x.yaml:9:11: faults[1].kind"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "[1]", "[7]")); }),
              HasSubstr("rank 7 does not exist; the engine has 2"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "[60, 80]", "[0, 80]")); }),
              HasSubstr("stretch_steps"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "[60, 80]", "[80, 60]")); }),
              HasSubstr("the least first"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "step_ms", "step_sm")); }),
              HasSubstr("did you mean \"step_ms\"?"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "duration_s: 20", "duration_s: 4")); }),
              HasSubstr("leaves nothing"));
  EXPECT_THAT(MessageOf([] { Read(Replaced(kSchedule, "duration_s: 20", "duration_s: -1")); }),
              HasSubstr("duration_s"));
  EXPECT_THAT(
      MessageOf([] { Read(std::string(kSchedule) + "    level_edges_us: [1, 2, 3, 3, 5, 6]\n"); }),
      HasSubstr("six rising numbers"));
}

TEST(MakePlansTest, ScheduleWithoutRoomIsRefused) {
  const Schedule schedule = Read(Replaced(kSchedule, "duration_s: 20", "duration_s: 4.2"));
  EXPECT_THAT(MessageOf([&] { MakePlans(schedule, 1, 1); }), HasSubstr("no room"));
}

TEST(MakePlansTest, SameSeedGivesTheSamePlanWhateverFollows) {
  const Schedule schedule = Read(kSchedule);
  const auto some = MakePlans(schedule, 7, 3), more = MakePlans(schedule, 7, 9);
  for (std::size_t run = 0; run < some.size(); ++run) {
    EXPECT_EQ(some[run].ToJson(), more[run].ToJson());
  }
  EXPECT_NE(some[0].ToJson(), some[1].ToJson());
  EXPECT_NE(some[0].ToJson(), MakePlans(schedule, 8, 1)[0].ToJson());
}

TEST(FaultKindTest, AgentDelayIsSpreadOverTheCallsOfAStep) {
  const FaultKind& kind = *FindKind("collective_delay");
  const FaultTarget target{.symbol = "all_reduce", .calls_per_step = 10};
  // 2,000 us a step over 10 calls are 200 us a call; a step of 8 ms then takes 10.
  const auto magnitude = kind.magnitude(2000, {}, target);
  EXPECT_EQ(magnitude.at("delay_ns"), 200'000);
  EXPECT_DOUBLE_EQ(kind.dilation(magnitude, target, 8), 1.25);
}

ScheduledKind Scheduled(const std::string& kind, const std::string& more) {
  const std::string yaml = "faults:\n  - {kind: " + kind +
                           ", targets: [{symbol: f, calls_per_step: 10, call_us: 50}], " + more +
                           "}\n";
  return Read(yaml).kinds.front();
}

TEST(FaultKindTest, ModesOfAnAgentDelayGiveTheSameTimePerStep) {
  const FaultKind& kind = *FindKind("collective_delay");
  const auto sizes = [&](const std::string& more) {
    const ScheduledKind scheduled = Scheduled("collective_delay", more);
    return kind.magnitude(2000, scheduled, scheduled.targets.front());
  };
  // 2,000 us over 10 calls, of which one in four is hit: 800 us a hit.
  EXPECT_EQ(sizes("mode: random, probability: 0.25"),
            (Magnitudes{{"mean_delay_ns", 800'000}, {"probability", 0.25}}));
  EXPECT_EQ(sizes("every_n: 4"), (Magnitudes{{"delay_ns", 800'000}, {"every_n", 4}}));
  // 200 us a call that takes 50 us itself.
  EXPECT_EQ(sizes("mode: proportional"), (Magnitudes{{"factor", 4}}));
  EXPECT_EQ(Scheduled("copy_throttle", "repeat: 1").mode, "proportional");
  for (const char* more : {"mode: random, probability: 0.25", "every_n: 4", "mode: proportional"}) {
    const ScheduledKind scheduled = Scheduled("collective_delay", more);
    EXPECT_DOUBLE_EQ(kind.dilation(sizes(more), scheduled.targets.front(), 8), 1.25) << more;
  }
}

TEST(ReadScheduleTest, RefusesModesAndRampsThatAKindDoesNotHave) {
  const auto message = [](const std::string& fault) {
    return MessageOf([&] { Read("faults:\n  - {" + fault + "}\n"); });
  };
  EXPECT_THAT(message("kind: link_latency, ramp_share: 0.5"), HasSubstr("cannot ramp"));
  EXPECT_THAT(message("kind: copy_delay, mode: proportional, targets: [{symbol: f}]"),
              HasSubstr("mode"));
  EXPECT_THAT(message("kind: copy_throttle, targets: [{symbol: f}]"), HasSubstr("needs call_us"));
  EXPECT_THAT(message("kind: process_pause, mode: random"), HasSubstr("mode"));
  EXPECT_THAT(message("kind: batch_cap"), HasSubstr("campaign.configuration"));
}

TEST(FaultKindTest, NamesAreUniqueAndEveryKindIsWhole) {
  std::set<std::string_view> names;
  for (const FaultKind& kind : AllKinds()) {
    const KindDescription& description = kind.description;
    EXPECT_TRUE(names.insert(description.name).second) << description.name;
    EXPECT_TRUE(description.view == "horizontal" || description.view == "vertical");
    EXPECT_FALSE(description.family.empty());
    EXPECT_TRUE(std::is_sorted(description.step_edges_us.begin(), description.step_edges_us.end(),
                               std::less_equal<>()));
    EXPECT_EQ(FindKind(description.name), &kind);
  }
  EXPECT_EQ(FindKind("no_such_kind"), nullptr);
}

}  // namespace
}  // namespace teller::fault_injection
