// From a run folder written by hand, two nodes with clocks 9 s apart, to labelled steps.
#include "src/dataset/build_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "src/core/error.h"
#include "src/trace/trace_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using trace::EventTable;
using trace::Kind;
using trace::Layer;

constexpr int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr int64_t kOffsetNs = 9 * kSecond;  // node1's clock is ahead
constexpr int kSteps = 40;

int64_t StepBegin(int step) { return kSecond + step * 6 * kMs; }

// A step of 5 ms: an operator that launches a kernel, and an all-reduce on the stream that both
// ranks end at 3 ms.
EventTable RankEvents(trace::TraceWriter& writer, bool steps, int64_t clock_ns) {
  EventTable events;
  const StringId execute = writer.Intern("execute_context_0(0)_generation_2(2)"),
                 linear = writer.Intern("teller::linear"), launch = writer.Intern("streamLaunch"),
                 kernel = writer.Intern("linear_f32_kernel"), reduce = writer.Intern("all_reduce"),
                 tp = writer.Intern("tp");
  for (int s = 0; s < kSteps; ++s) {
    const int64_t t = StepBegin(s) + clock_ns;
    const auto correlation = static_cast<uint64_t>(s + 1);
    if (steps) events.Append({.begin_ns = t, .end_ns = t + 5 * kMs, .name = execute, .track = 1});
    events.Append({.begin_ns = t + 100 * kUs,
                   .end_ns = t + 300 * kUs,
                   .name = linear,
                   .layer = Layer::kBackend,
                   .kind = Kind::kOperator,
                   .track = 1});
    events.Append({.begin_ns = t + 200 * kUs,
                   .end_ns = t + 220 * kUs,
                   .name = launch,
                   .layer = Layer::kHostApi,
                   .kind = Kind::kLaunch,
                   .track = 1,
                   .correlation = correlation});
    events.Append({.begin_ns = t + 400 * kUs,
                   .end_ns = t + 900 * kUs,
                   .name = kernel,
                   .layer = Layer::kDevice,
                   .kind = Kind::kKernel,
                   .track = 7,
                   .correlation = correlation,
                   .flags = trace::kFlagOnDevice});
    events.Append({.begin_ns = t + 1 * kMs,
                   .end_ns = t + 3 * kMs,
                   .name = reduce,
                   .layer = Layer::kComm,
                   .kind = Kind::kCollective,
                   .track = 7,
                   .comm = tp,
                   .sequence = s,
                   .bytes = 64,
                   .flags = trace::kFlagOnDevice});
  }
  return events;
}

void WriteTrace(const std::filesystem::path& path, bool steps = true) {
  trace::TraceWriter writer(path, {.run_id = "run7", .hosts = {"h"}, .workload = "reference"});
  for (int rank = 0; rank < 2; ++rank) {
    const std::string node = "node" + std::to_string(rank);
    writer.AddProcess(
        {.rank = RankId{rank}, .node = node, .host = "h", .pid = static_cast<uint32_t>(10 + rank)});
    const int64_t clock_ns = rank * kOffsetNs;
    writer.Append(rank, RankEvents(writer, steps, clock_ns));
    for (int64_t t = 0; t <= 2; ++t) {
      writer.AppendClock({{rank, static_cast<uint64_t>(1 + 3 * t * kSecond), t * kSecond + clock_ns,
                           t * kSecond + 1000 * kSecond}});
    }
  }
  writer.AppendLogs({{.realtime_ns = StepBegin(4) + kMs + 1000 * kSecond,
                      .process = 1,
                      .text = "INFO 12-01 12:00:00 [a.cc:3] took 3 ms"}});
  writer.Close();
}

// Calibration: steps 0 to 9. A stretch over steps 20 to 29 with a delay of 700 us in the all-reduce
// of steps 20 to 24, on rank 1, all on node1's clock.
void WriteTruth(const std::filesystem::path& path) {
  const auto on_node1 = [](int64_t base_ns) { return std::to_string(base_ns + kOffsetNs); };
  std::ofstream out(path);
  out << R"({"type":"header","schema_name":"truth","schema_version":"1.0","run_id":"run7","seed":1,"nodes":[{"name":"node0","rank":0,"clock_offset_ns":0},{"name":"node1","rank":1,"clock_offset_ns":9000000000}]})"
      << "\n"
      << R"({"type":"calibration","node":"node0","begin_ns":)" << StepBegin(0) << R"(,"end_ns":)"
      << StepBegin(10) - 1 << "}\n"
      << R"({"type":"plan","plan_id":3,"stretch":0,"kind":"collective_delay","family":"communication","view":"horizontal","placebo":false,"level":2,"magnitude":{},"target":{"rank":1,"node":"node1","layer":"comm","symbol":"all_reduce*"},"culprit":{"rank":1,"layer":"comm","symbol":"all_reduce"},"where":"inside"})"
      << "\n"
      << R"({"type":"stretch_begin","plan_id":3,"stretch":0,"node":"node1","time_ns":)"
      << on_node1(StepBegin(20) - 100) << "}\n";
  for (int s = 20; s < 25; ++s) {
    out << R"({"type":"action","plan_id":3,"node":"node1","rank":1,"begin_ns":)"
        << on_node1(StepBegin(s) + 1100 * kUs) << R"(,"end_ns":)"
        << on_node1(StepBegin(s) + 1800 * kUs) << R"(,"what":"delay","where":"inside"})"
        << "\n";
  }
  out << R"({"type":"stretch_end","plan_id":3,"stretch":0,"node":"node1","time_ns":)"
      << on_node1(StepBegin(30) - 100) << "}\n"
      << R"({"type":"footer","complete":true,"actions":5})"
      << "\n";
}

int64_t StatOf(const StepsFile& steps, const std::string& name) {
  const auto found = std::ranges::find(steps.stats, name, &std::pair<std::string, int64_t>::first);
  return found == steps.stats.end() ? 0 : found->second;
}

class BuildStepsTest : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
};

TEST_F(BuildStepsTest, TurnsARunFolderIntoLabelledSteps) {
  WriteTrace(folder_ / "trace.h5");
  WriteTruth(folder_ / "truth.jsonl");
  BuildStepsFile(folder_.path(), folder_ / "steps.h5");
  const StepsFile steps = ReadSteps(folder_ / "steps.h5");
  ASSERT_EQ(steps.run.steps.size(), static_cast<std::size_t>(kSteps));
  EXPECT_TRUE(steps.clock_aligned);
  EXPECT_EQ(steps.run.run_id, "run7");
  EXPECT_EQ(steps.inputs.size(), 2u);
  const reconstruct::StepForest& step = steps.run.steps[20];
  EXPECT_EQ(step.ranks.size(), 2u);
  EXPECT_EQ(step.rank_begin_ns,
            (std::vector<int64_t>{StepBegin(20), StepBegin(20)}));  // 9 s apart before alignment
  EXPECT_EQ(step.phase, reconstruct::Phase::kDecode);
  EXPECT_EQ(step.batch_size, 2);
  EXPECT_EQ(step.nodes.size(), 12u);  // a rank: step, operator, launch; stream, kernel, all-reduce
  EXPECT_EQ(step.edges.size(), 3u);   // two launches, one collective
  for (int s = 0; s < kSteps; ++s) {
    const StepLabel& label = steps.labels[static_cast<std::size_t>(s)];
    EXPECT_EQ(label.status, s >= 20 && s < 25 ? LabelStatus::kPositive : LabelStatus::kNegative)
        << s;
    EXPECT_EQ((label.reasons & kReasonCalibration) != 0, s < 10) << s;
    EXPECT_EQ((label.reasons & kReasonNoAction) != 0, s >= 25 && s < 30) << s;
  }
  const StepLabel& label = steps.labels[20];
  EXPECT_EQ(label.recorded_ns, (std::vector<int64_t>{0, 700 * kUs}));
  EXPECT_EQ(label.culprit_symbol, "all_reduce");
  ASSERT_EQ(label.hit_nodes.size(), 1u);
  const reconstruct::StepNode& hit = step.nodes[Index(label.hit_nodes[0])];
  EXPECT_EQ(step.tracks[hit.track].rank, RankId{1});
  EXPECT_EQ(hit.kind, Kind::kCollective);
  ASSERT_EQ(steps.run.steps[4].logs.size(), 1u);
  EXPECT_EQ(steps.run.steps[4].logs[0].text, "INFO a.cc: took <duration>");
  EXPECT_EQ(StatOf(steps, "truth_incomplete"), 0);
}

TEST_F(BuildStepsTest, TheSameInputGivesTheSameSteps) {
  WriteTrace(folder_ / "trace.h5");
  WriteTruth(folder_ / "truth.jsonl");
  const StepsFile a = BuildSteps(folder_.path()), b = BuildSteps(folder_.path());
  EXPECT_EQ(a.numbers, b.numbers);
  EXPECT_EQ(a.run.symbols.Strings(), b.run.symbols.Strings());
}

TEST_F(BuildStepsTest, SaysWhatIsMissing) {
  EXPECT_THROW(BuildSteps(folder_.path()), DataError);
  WriteTruth(folder_ / "truth.jsonl");
  EXPECT_THROW(BuildSteps(folder_.path()), DataError);
  WriteTrace(folder_ / "trace.h5", /*steps=*/false);
  EXPECT_THROW(BuildSteps(folder_.path()), DataError);
}

TEST_F(BuildStepsTest, ATraceAloneHasNegativeLabels) {
  WriteTrace(folder_ / "t.h5");
  const StepsFile steps = BuildStepsOfTrace(folder_ / "t.h5");
  ASSERT_EQ(steps.labels.size(), static_cast<std::size_t>(kSteps));
  EXPECT_TRUE(std::ranges::all_of(
      steps.labels, [](const StepLabel& l) { return l.status == LabelStatus::kNegative; }));
}

TEST_F(BuildStepsTest, ATraceWithoutStepRangesIsOneStep) {
  WriteTrace(folder_ / "t.h5", /*steps=*/false);
  const StepsFile steps = BuildStepsOfTrace(folder_ / "t.h5");
  ASSERT_EQ(steps.run.steps.size(), 1u);
  EXPECT_EQ(StatOf(steps, "whole_trace_is_one_step"), 1);
  const reconstruct::StepForest& step = steps.run.steps[0];
  EXPECT_EQ(step.ranks.size(), 2u);
  // A rank: the range, 40 x (operator, launch), the stream, 40 x (kernel, all-reduce).
  EXPECT_EQ(step.nodes.size(), 2u * (1 + 80 + 1 + 80));
  EXPECT_EQ(std::ranges::count(step.edges, reconstruct::EdgeType::kCollective,
                               &reconstruct::StepEdge::type),
            kSteps);
}

TEST_F(BuildStepsTest, ATraceWithoutEventsHasNoStep) {
  trace::TraceWriter(folder_ / "t.h5", {}).Close();
  EXPECT_TRUE(BuildStepsOfTrace(folder_ / "t.h5").run.steps.empty());
}

}  // namespace
}  // namespace teller::dataset
