#include "src/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/h5/file.h"
#include "src/trace/trace_schema.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_events.h"

namespace teller::trace {
namespace {

using ::testing::HasSubstr;
using testing_support::EventsOfRows;

template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void ExpectSameEvents(const EventTable& found, const EventTable& expected) {
  ASSERT_EQ(found.size(), expected.size());
  std::vector<const void*> others;
  VisitColumns(expected, [&](const char*, const auto& column) { others.push_back(&column); });
  std::size_t index = 0;
  VisitColumns(found, [&](const char* name, const auto& column) {
    using Vector = std::decay_t<decltype(column)>;
    EXPECT_TRUE(column == *static_cast<const Vector*>(others[index++])) << name;
  });
}

class TraceFileTest : public testing::Test {
 protected:
  // Three strings, two processes of `rows` and one event, a log line, clock readings, two counters.
  void Write(uint64_t rows, bool close = true) {
    TraceWriter writer(path_, {.run_id = "run7",
                               .hosts = {"h0", "h1"},
                               .config_yaml = "a: 1\n",
                               .workload = "reference"});
    for (const char* name : {"a", "b", "c"}) writer.Intern(name);
    writer.AddProcess(
        {.rank = RankId{0}, .node = "node0", .host = "h0", .pid = 12, .command = "serve"});
    writer.AddProcess({.host = "h1", .pid = 4000000000u, .parent_pid = 1, .comm = "x"});
    for (uint64_t row = 0; row < rows; row += 5000) {
      writer.Append(0, EventsOfRows(row, std::min<uint64_t>(5000, rows - row), 3));
      writer.Flush();
    }
    writer.Append(1, EventsOfRows(7, 1, 3));
    writer.UpdateProcess(
        1, {.rank = RankId{1}, .node = "node1", .host = "h1", .pid = 4000000000u, .comm = "y"});
    writer.AppendLogs(
        {{5, 1700000000000000000, 0, StringId{1}, 17, "INFO hello"}, {6, 7, -1, kNoString, 0, ""}});
    writer.AppendClock({{1, UINT64_MAX, -3, 4}});
    writer.AppendProbes({{"node0", "node1", 1, 2, 3, 4}});
    writer.SetStats({{"dropped", "events", Severity::kDataLoss, 9}});
    writer.SetRunId("run8");
    if (close) writer.Close();
  }
  testing_support::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "trace.h5";
};

class TraceFileRowsTest : public TraceFileTest, public testing::WithParamInterface<uint64_t> {};

TEST_P(TraceFileRowsTest, ReadsWhatWasWritten) {
  Write(GetParam());
  const TraceReader reader(path_);
  EXPECT_TRUE(reader.complete());
  ASSERT_EQ(reader.processes().size(), 2u);
  ExpectSameEvents(reader.ReadEvents(0), EventsOfRows(0, GetParam(), 3));
  ExpectSameEvents(reader.ReadEvents(1), EventsOfRows(7, 1, 3));
}

// Empty, one row, one less and one more than a chunk, exactly two chunks, many.
INSTANTIATE_TEST_SUITE_P(Shapes, TraceFileRowsTest,
                         testing::Values(0, 1, 8191, 8193, 16384, 50000));

TEST_F(TraceFileTest, KeepsEverythingBesideEvents) {
  Write(1);
  const TraceReader reader(path_);
  EXPECT_EQ(reader.meta().run_id, "run8");
  EXPECT_EQ(reader.meta().clock, "monotonic");
  EXPECT_EQ(reader.meta().hosts, (std::vector<std::string>{"h0", "h1"}));
  EXPECT_EQ(reader.meta().config_yaml, "a: 1\n");
  EXPECT_EQ(reader.meta().workload, "reference");
  EXPECT_EQ(reader.strings().Strings(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(reader.processes()[0].command, "serve");
  EXPECT_EQ(reader.processes()[0].rank, RankId{0});
  EXPECT_EQ(reader.processes()[1].rank, RankId{1});
  EXPECT_EQ(reader.processes()[1].pid, 4000000000u);
  EXPECT_EQ(reader.processes()[1].comm, "y");
  const auto logs = reader.ReadLogs();
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs[0].text, "INFO hello");
  EXPECT_EQ(logs[0].offset, 17u);
  EXPECT_EQ(logs[0].file, StringId{1});
  EXPECT_EQ(logs[1].process, -1);
  EXPECT_EQ(logs[1].file, kNoString);
  const auto clock = reader.ReadClock();
  ASSERT_EQ(clock.size(), 1u);
  EXPECT_EQ(clock[0].ticks, UINT64_MAX);
  EXPECT_EQ(clock[0].monotonic_ns, -3);
  const auto probes = reader.ReadProbes();
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(probes[0].to, "node1");
  EXPECT_EQ(probes[0].returned_ns, 4);
  const auto stats = reader.ReadStats();
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0].severity, Severity::kDataLoss);
  EXPECT_EQ(stats[0].count, 9);
}

TEST_F(TraceFileTest, ReadsAFileThatWasNotClosedAsIncomplete) {
  Write(20000, /*close=*/false);
  const TraceReader reader(path_);
  EXPECT_FALSE(reader.complete());
  ExpectSameEvents(reader.ReadEvents(0), EventsOfRows(0, 16384, 3));  // whole chunks only
}

TEST_F(TraceFileTest, ReplacesBytesThatAreNotUtf8AndNul) {
  {
    TraceWriter writer(path_, {});
    using std::string_view_literals::operator""sv;
    EXPECT_EQ(writer.Intern("ok \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\n"), StringId{0});
    writer.Intern("a\0b"sv);
    writer.Intern("\xC3(\xFF\xED\xA0\x80\xC0\xAF");
    writer.Close();
  }
  const TraceReader reader(path_);
  EXPECT_EQ(reader.strings().View(StringId{0}), "ok \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\n");
  EXPECT_EQ(reader.strings().View(StringId{1}),
            "a\xEF\xBF\xBD"
            "b");
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(reader.strings().View(StringId{2}), r + "(" + r + r + r + r + r + r);
}

TEST_F(TraceFileTest, RefusesCodesAndStringsOutOfRange) {
  for (const char* what : {"layer", "kind", "source", "name", "comm"}) {
    SCOPED_TRACE(what);
    const auto path = folder_ / (std::string(what) + ".h5");
    {
      TraceWriter writer(path, {});
      writer.Intern("a");
      writer.AddProcess({});
      Event event{.name = StringId{0}};
      if (what == std::string("layer")) event.layer = Layer{5};
      if (what == std::string("kind")) event.kind = Kind{15};
      if (what == std::string("source")) event.source = Source{5};
      if (what == std::string("name")) event.name = kNoString;
      if (what == std::string("comm")) event.comm = StringId{1};
      EventTable events;
      events.Append(event);
      writer.Append(0, events);
      writer.Close();
    }
    EXPECT_THAT(MessageOf([&] { TraceReader(path).ReadEvents(0); }),
                HasSubstr(std::string("/processes/0/") + what));
  }
}

TEST_F(TraceFileTest, RefusesForeignHdf5) {
  h5::File::Create(path_).Close();
  EXPECT_THAT(MessageOf([&] { TraceReader reader(path_); }),
              HasSubstr("expected a file of schema 'trace'"));
}

}  // namespace
}  // namespace teller::trace
