// kill -9 of the process that writes a trace: the file opens, and every value that was flushed is
// right.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "src/core/random.h"
#include "src/trace/trace_file.h"
#include "src/trace/trace_schema.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_events.h"

namespace teller::trace {
namespace {

constexpr uint32_t kStrings = 3;

// What the writer says after each flush.
struct Flushed {
  uint64_t chunk_rows = 0;  // of process 0: whole chunks
  uint64_t lines = 0;
};

int Kills() {
  const char* kills = std::getenv("TELLER_TEST_KILLS");
  return kills == nullptr ? 30 : std::atoi(kills);
}

LogLine LineOf(uint64_t index) {
  return {.read_ns = static_cast<int64_t>(index * 7),
          .offset = index,
          .text = "line " + std::to_string(index)};
}

[[noreturn]] void WriteUntilKilled(const std::filesystem::path& path, int fd, uint64_t seed) {
  Random random(seed);
  TraceWriter writer(path, {.run_id = "killed"});
  for (const char* name : {"a", "b", "c"}) writer.Intern(name);
  writer.AddProcess({.pid = 1});
  writer.AddProcess({.pid = 2});
  uint64_t rows = 0;
  Flushed flushed;
  while (true) {
    const auto count = static_cast<uint64_t>(random.UniformInt(1, 6000));
    writer.Append(0, testing_support::EventsOfRows(rows, count, kStrings));
    writer.Append(1, testing_support::EventsOfRows(rows, count, kStrings));
    rows += count;
    writer.AppendLogs({LineOf(flushed.lines), LineOf(flushed.lines + 1)});
    flushed.lines += 2;
    writer.Intern("name " + std::to_string(flushed.lines));
    writer.Flush();
    flushed.chunk_rows = rows / kEventChunkRows * kEventChunkRows;
    if (write(fd, &flushed, sizeof flushed) != sizeof flushed) _exit(1);
  }
}

// Kills a writer after `life_us` and answers the last flush it told of.
Flushed KillOne(const std::filesystem::path& path, uint64_t seed, int64_t life_us) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    WriteUntilKilled(path, ends[1], seed);
  }
  close(ends[1]);
  Flushed last;
  // The first message says that the file is there; then the clock runs.
  EXPECT_EQ(read(ends[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  usleep(static_cast<useconds_t>(life_us));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Flushed next;
  while (read(ends[0], &next, sizeof next) == static_cast<ssize_t>(sizeof next)) last = next;
  close(ends[0]);
  return last;
}

void ExpectRight(const TraceReader& reader, const Flushed& flushed) {
  EXPECT_FALSE(reader.complete());
  ASSERT_EQ(reader.processes().size(), 2u);
  for (int process = 0; process < 2; ++process) {
    const EventTable events = reader.ReadEvents(process);
    ASSERT_GE(events.size(), flushed.chunk_rows);
    const EventTable expected = testing_support::EventsOfRows(0, events.size(), kStrings);
    EXPECT_TRUE(events.begin_ns == expected.begin_ns);
    EXPECT_TRUE(events.end_ns == expected.end_ns);
    EXPECT_TRUE(events.name == expected.name);
    EXPECT_TRUE(events.layer == expected.layer);
    EXPECT_TRUE(events.kind == expected.kind);
    EXPECT_TRUE(events.track == expected.track);
    EXPECT_TRUE(events.correlation == expected.correlation);
    EXPECT_TRUE(events.graph_node == expected.graph_node);
    EXPECT_TRUE(events.comm == expected.comm);
    EXPECT_TRUE(events.sequence == expected.sequence);
    EXPECT_TRUE(events.peer == expected.peer);
    EXPECT_TRUE(events.bytes == expected.bytes);
    EXPECT_TRUE(events.source == expected.source);
    EXPECT_TRUE(events.flags == expected.flags);
  }
  const auto lines = reader.ReadLogs();
  ASSERT_GE(lines.size(), flushed.lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].text, LineOf(i).text);
    ASSERT_EQ(lines[i].read_ns, LineOf(i).read_ns);
  }
  for (std::size_t i = kStrings; i < reader.strings().size(); ++i) {
    ASSERT_EQ(reader.strings().View(StringId{static_cast<uint32_t>(i)}),
              "name " + std::to_string(2 * (i - kStrings + 1)));
  }
}

TEST(KilledWriterTest, EveryFlushedValueSurvives) {
  const testing_support::TemporaryFolder folder;
  Random random(20261201);
  uint64_t rows = 0;
  for (int kill = 0; kill < Kills(); ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    const auto path = folder / (std::to_string(kill) + ".h5");
    const Flushed flushed = KillOne(path, random.Next(), random.UniformInt(0, 60000));
    ExpectRight(TraceReader(path), flushed);
    rows += flushed.chunk_rows;
    std::filesystem::remove(path);
  }
  EXPECT_GT(rows, 0u) << "no kill came after a whole chunk";
}

}  // namespace
}  // namespace teller::trace
