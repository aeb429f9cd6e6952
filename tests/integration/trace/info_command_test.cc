#include "src/cli/info_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "src/core/error.h"
#include "src/core/random.h"
#include "src/dataset/steps_file.h"
#include "src/h5/file.h"
#include "src/trace/trace_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::cli {
namespace {

using ::testing::HasSubstr;
using trace::Event;
using trace::Kind;
using trace::Layer;

// Rank 0 (pid 10): a range, a launch with two kernels, a kernel without launch, a collective. A
// process without rank (pid 11): a launch of the same correlation id, which must not count as pid
// 10's.
void WriteTrace(const std::filesystem::path& path, int64_t last_end_ns = 9000) {
  trace::TraceWriter writer(path, {.run_id = "run7", .workload = "reference"});
  const StringId name = writer.Intern("x");
  writer.AddProcess({.rank = RankId{0}, .node = "node0", .host = "h0", .pid = 10});
  writer.AddProcess({.node = "node0", .host = "h0", .pid = 11});
  trace::EventTable events;
  const auto on_device = trace::kFlagOnDevice;
  events.Append({.begin_ns = 1000, .end_ns = last_end_ns, .name = name});
  events.Append({.begin_ns = 1100,
                 .end_ns = 1200,
                 .name = name,
                 .layer = Layer::kHostApi,
                 .kind = Kind::kLaunch,
                 .correlation = 5});
  events.Append({.begin_ns = 2000,
                 .end_ns = 2100,
                 .name = name,
                 .layer = Layer::kDevice,
                 .kind = Kind::kKernel,
                 .correlation = 5,
                 .flags = on_device});
  events.Append({.begin_ns = 2100,
                 .end_ns = 2200,
                 .name = name,
                 .layer = Layer::kDevice,
                 .kind = Kind::kMemcpy,
                 .correlation = 5,
                 .flags = on_device});
  events.Append({.begin_ns = 2300,
                 .end_ns = 2400,
                 .name = name,
                 .layer = Layer::kDevice,
                 .kind = Kind::kKernel,
                 .correlation = 6,
                 .flags = on_device});
  events.Append({.begin_ns = 2500,
                 .end_ns = 2600,
                 .name = name,
                 .layer = Layer::kComm,
                 .kind = Kind::kCollective});
  writer.Append(0, events);
  events.Clear();
  events.Append({.begin_ns = 1100,
                 .end_ns = 1200,
                 .name = name,
                 .layer = Layer::kHostApi,
                 .kind = Kind::kLaunch,
                 .correlation = 6});
  writer.Append(1, events);
  writer.AppendLogs({{.text = "hello"}});
  writer.SetStats({{"dropped", "events", trace::Severity::kDataLoss, 3},
                   {"source:cpu_op", "events", trace::Severity::kInfo, 4}});
  writer.Close();
}

std::string OutputOf(const InfoOptions& options) {
  testing::internal::CaptureStdout();
  RunInfo(options);
  return testing::internal::GetCapturedStdout();
}

class InfoCommandTest : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t.h5";
};

TEST_F(InfoCommandTest, JsonHasTheDocumentedKeysAndCounts) {
  WriteTrace(path_);
  const auto found = nlohmann::json::parse(OutputOf({.file = path_, .json = true}));
  const auto expected = nlohmann::json::parse(R"({
    "schema_version": "1.0", "duration_ns": 8000, "complete": true,
    "ranks": [
      {"rank": 0, "host": "h0", "pid": 10, "counts": {"engine": 1, "backend": 0, "host_api": 1, "device": 3, "comm": 1}},
      {"rank": null, "host": "h0", "pid": 11, "counts": {"engine": 0, "backend": 0, "host_api": 1, "device": 0, "comm": 0}}],
    "device_kinds": {"kernel": 2, "memcpy": 1, "memset": 0, "graph": 0, "sync": 0},
    "links": {"device_with_launch": 2, "device_without_launch": 1, "max_device_per_launch": 2},
    "source_counts": {"nvtx": 7, "cpu_op": 4}, "logs": 1,
    "clock": {"aligned": true, "residual_ns": 0}, "stats": {"dropped": 3}})");
  EXPECT_EQ(found, expected);
}

TEST_F(InfoCommandTest, TextNamesEveryProcessAndCounter) {
  WriteTrace(path_);
  const std::string text = OutputOf({.file = path_, .check = true});
  EXPECT_THAT(text, HasSubstr("run run7, workload reference, 8 us, complete"));
  EXPECT_THAT(text, HasSubstr("device items: 2 with a launch, 1 without, at most 2 of one launch"));
  EXPECT_THAT(text, HasSubstr("dropped"));
}

TEST_F(InfoCommandTest, CheckRefusesIncompleteAndBackwardsTraces) {
  WriteTrace(path_, /*last_end_ns=*/500);
  EXPECT_THROW(OutputOf({.file = path_, .check = true}), CheckError);
  testing::internal::GetCapturedStdout();
  EXPECT_NO_THROW(OutputOf({.file = path_}));
  { trace::TraceWriter writer(folder_ / "open.h5", {}); }
  EXPECT_THROW(OutputOf({.file = folder_ / "open.h5", .check = true}), CheckError);
  testing::internal::GetCapturedStdout();
}

TEST_F(InfoCommandTest, RefusesForeignFiles) {
  std::ofstream(folder_ / "a.txt") << "text";
  EXPECT_THROW(RunInfo({.file = folder_ / "a.txt"}), DataError);
  EXPECT_THROW(RunInfo({.file = folder_ / "none.h5"}), DataError);
  h5::File::Create(folder_ / "foreign.h5").Close();
  EXPECT_THROW(RunInfo({.file = folder_ / "foreign.h5"}), DataError);
}

// A steps.h5 of one step.
void WriteSteps(const std::filesystem::path& path) {
  dataset::StepsFile steps;
  steps.run.symbols.Intern("execute");
  reconstruct::StepForest step{.end_ns = 10};
  step.ranks = {RankId{0}};
  step.rank_begin_ns = {0};
  step.rank_end_ns = {10};
  step.tracks = {{RankId{0}, 0, false}};
  step.nodes = {{.duration_ns = 10, .host_self_ns = 10}};
  steps.run.steps = {step};
  steps.labels.resize(1);
  steps.forest = {1};
  steps.number_names = {"x"};
  steps.numbers = {{1.0f}};
  dataset::WriteSteps(path, steps);
}

// Bytes of a good file are changed at random: every outcome is a report or one line, and this
// process lives.
void SurviveDamage(const std::filesystem::path& path, uint64_t seed) {
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  Random random(seed);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mutation " + std::to_string(i));
    std::string damaged = good;
    for (int64_t changes = random.UniformInt(1, 16); changes > 0; --changes) {
      const int64_t at = random.UniformInt(0, static_cast<int64_t>(damaged.size()) - 1);
      damaged[static_cast<std::size_t>(at)] = static_cast<char>(random.Next());
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    testing::internal::CaptureStdout();
    try {
      RunInfo({.file = path, .check = true, .json = true});
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
    testing::internal::GetCapturedStdout();
  }
}

TEST_F(InfoCommandTest, SurvivesDamagedTraces) {
  WriteTrace(path_);
  SurviveDamage(path_, 42);
}

TEST_F(InfoCommandTest, SurvivesDamagedSteps) {
  WriteSteps(path_);
  SurviveDamage(path_, 43);
}

TEST_F(InfoCommandTest, ListsTheColumnsOfOtherFilesOfOurs) {
  WriteSteps(path_);
  const auto found = nlohmann::json::parse(OutputOf({.file = path_, .check = true, .json = true}));
  EXPECT_EQ(found["schema_name"], "steps");
  EXPECT_EQ(found["columns"]["/nodes/duration_ns"]["rows"], 1);
  EXPECT_EQ(found["columns"]["/nodes/duration_ns"]["type"], "int64");
}

}  // namespace
}  // namespace teller::cli
