#include "src/reconstruct/log_attach.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace teller::reconstruct {
namespace {

constexpr int64_t kMs = 1'000'000;

// Steps of 8 ms every 10 ms from 1 s on; step 3 holds request cmpl-7.
RunForest ThreeSteps() {
  RunForest run;
  for (int i = 0; i < 4; ++i) {
    StepForest step;
    step.begin_ns = 1000 * kMs + i * 10 * kMs;
    step.end_ns = step.begin_ns + 8 * kMs;
    run.steps.push_back(step);
  }
  run.steps[3].requests = {"cmpl-7"};
  return run;
}

struct Attached {
  RunForest run = ThreeSteps();
  std::map<std::string, int64_t> stats;
};

// The process's monotonic clock is 500 s behind realtime's zero, and 2 s ahead of the base.
Attached Attach(const std::vector<trace::LogLine>& lines) {
  Attached attached;
  const std::vector<trace::ProcessInfo> processes{{.rank = RankId{1}}};
  const std::vector<trace::ClockTriple> triples{{0, 1, 3000 * kMs, 503'000 * kMs}};
  Alignment alignment;
  alignment.processes = {{.offset_ns = -2000 * kMs}};
  AttachLogs(lines, triples, processes, alignment, attached.run, attached.stats);
  return attached;
}

trace::LogLine LineAt(int64_t base_ns, const std::string& text) {
  return {.read_ns = -1,
          .realtime_ns = base_ns + 2000 * kMs + 500'000 * kMs,
          .process = 0,
          .text = text};
}

TEST(AttachLogsTest, GoesByTheTimeOfReadingOnTheBaseClock) {
  const Attached found = Attach({LineAt(1012 * kMs, "INFO 12-01 12:00:00 [a.py:3] took 3 ms")});
  ASSERT_EQ(found.run.steps[1].logs.size(), 1u);
  EXPECT_EQ(found.run.steps[1].logs[0].text, "INFO a.py: took <duration>");
  EXPECT_EQ(found.run.steps[1].logs[0].offset_ns, 2 * kMs);
  EXPECT_EQ(found.run.steps[1].logs[0].rank, RankId{1});
}

TEST(AttachLogsTest, BetweenStepsTheEarlierOne) {
  EXPECT_EQ(Attach({LineAt(1019 * kMs, "x")}).run.steps[1].logs.size(), 1u);
}

TEST(AttachLogsTest, IdsComeBeforeTime) {
  const Attached found = Attach({LineAt(1012 * kMs, "Finished request cmpl-7.")});
  EXPECT_EQ(found.run.steps[3].logs.size(), 1u);
  EXPECT_EQ(found.stats.at("log_lines_by_id"), 1);
}

TEST(AttachLogsTest, AnIdFarAwayDoesNotPull) {
  Attached found;
  found = Attach({LineAt(900 * kMs, "request cmpl-7")});
  EXPECT_TRUE(found.run.steps[3].logs.empty());
  EXPECT_EQ(found.stats.at("log_lines_outside_steps"), 1);
}

TEST(AttachLogsTest, CountsLinesOutsideAndEmpty) {
  const Attached found =
      Attach({LineAt(10 * kMs, "early"), LineAt(1300 * kMs, "late"), LineAt(1012 * kMs, "")});
  EXPECT_EQ(found.stats.at("log_lines_outside_steps"), 2);
  EXPECT_EQ(found.stats.at("log_lines_empty"), 1);
}

TEST(AttachLogsTest, WithoutClockReadingsTheCollectorsTimeServes) {
  RunForest run = ThreeSteps();
  std::map<std::string, int64_t> stats;
  const std::vector<trace::LogLine> lines{{.read_ns = 1025 * kMs, .text = "x"}};
  AttachLogs(lines, {}, {}, {}, run, stats);
  EXPECT_EQ(run.steps[2].logs.size(), 1u);
  EXPECT_EQ(run.steps[2].logs[0].rank, kNoRank);
}

TEST(AttachLogsTest, ATracebackGoesWithTheLineBeforeIt) {
  const Attached found = Attach({LineAt(1012 * kMs, "ERROR 12-01 12:00:00 [a.py:3] failed"),
                                 LineAt(1021 * kMs, "Traceback (most recent call last):"),
                                 LineAt(1021 * kMs, "  File \"a.py\", line 3, in f"),
                                 LineAt(1031 * kMs, "ValueError: x"), LineAt(1031 * kMs, "next")});
  EXPECT_EQ(found.run.steps[1].logs.size(), 1u);
  EXPECT_EQ(found.run.steps[2].logs.size(), 3u);  // with the traceback's first line
  EXPECT_EQ(found.run.steps[3].logs.size(), 1u);
  EXPECT_EQ(found.stats.at("log_lines_continued"), 2);
}

// An imported log: no times of reading; the trace's clock is realtime.
TEST(AttachLogsTest, ImportedLinesGoByTheTimeTheyState) {
  RunForest run = ThreeSteps();  // 1 s after the epoch
  std::map<std::string, int64_t> stats;
  const std::vector<trace::LogLine> lines{{.text = "INFO 01-01 00:00:01.012 [a.py:3] second"},
                                          {.text = "  and more of it"},
                                          {.text = "1970-01-01 00:00:01,031 - INFO - fourth"},
                                          {.text = "INFO 01-01 00:00:01 [a.py:3] any"},
                                          {.text = "no time"}};
  AttachLogs(lines, {}, {}, {}, run, stats);
  EXPECT_EQ(run.steps[1].logs.size(), 2u);
  EXPECT_EQ(run.steps[3].logs.size(), 1u);
  EXPECT_EQ(stats.at("log_lines_time_too_coarse"), 1);
  EXPECT_EQ(stats.at("log_lines_without_time"), 1);
}

}  // namespace
}  // namespace teller::reconstruct
