#include <gtest/gtest.h>

#include <string>

#include "src/dataset/steps_file.h"
#include "src/interop/export.h"
#include "src/trace/trace_file.h"
#include "tests/support/schema_document.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

using trace::Kind;
using trace::Layer;

class PerfettoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    python_ = testing_support::PythonWith("perfetto.protos.perfetto.trace.perfetto_trace_pb2");
    if (python_.empty()) GTEST_SKIP() << "the Python package 'perfetto' is not installed";
  }

  /// Two ranks; rank 0 launches two kernels that overlap in their stream, both ranks reduce.
  std::filesystem::path WriteTrace() {
    const std::filesystem::path path = folder_ / "trace.h5";
    trace::TraceWriter writer(path, {.run_id = "run", .workload = "reference"});
    const StringId reduce = writer.Intern("all_reduce");
    for (int rank = 0; rank < 2; ++rank) {
      const int process =
          writer.AddProcess({.rank = RankId{rank}, .node = "node0", .host = "h", .pid = 9});
      trace::EventTable events;
      if (rank == 0) {
        events.Append({.begin_ns = 100, .end_ns = 900, .name = writer.Intern("step"), .track = 5});
        events.Append({.begin_ns = 150,
                       .end_ns = 300,
                       .name = writer.Intern("linear"),
                       .layer = Layer::kBackend,
                       .kind = Kind::kOperator,
                       .track = 5});
        events.Append({.begin_ns = 160,
                       .end_ns = 170,
                       .name = writer.Intern("launch"),
                       .layer = Layer::kHostApi,
                       .kind = Kind::kLaunch,
                       .track = 5,
                       .correlation = 3});
        events.Append({.begin_ns = 200,
                       .end_ns = 260,
                       .name = writer.Intern("gemm"),
                       .layer = Layer::kDevice,
                       .kind = Kind::kKernel,
                       .track = 7,
                       .correlation = 3,
                       .flags = trace::kFlagOnDevice});
        events.Append({.begin_ns = 259,
                       .end_ns = 280,
                       .name = writer.Intern("relu"),
                       .layer = Layer::kDevice,
                       .kind = Kind::kKernel,
                       .track = 7,
                       .correlation = 3,
                       .flags = trace::kFlagOnDevice});
        events.Append({.begin_ns = 0,
                       .end_ns = 0,
                       .name = writer.Intern("untimed"),
                       .track = 5,
                       .flags = trace::kFlagNoTiming});
      }
      events.Append({.begin_ns = 400 + 10 * rank,
                     .end_ns = 500,
                     .name = reduce,
                     .layer = Layer::kComm,
                     .kind = Kind::kCollective,
                     .track = 5,
                     .comm = writer.Intern("tp"),
                     .sequence = 0,
                     .bytes = 64});
      writer.Append(process, events);
    }
    writer.Close();
    return path;
  }

  std::string Read(const std::filesystem::path& file) const {
    return testing_support::OutputOf(
        python_ + " " TELLER_SOURCE_DIR "/tests/integration/interop/read_perfetto.py " +
        file.string());
  }

  testing_support::TemporaryFolder folder_;
  std::string python_;
};

TEST_F(PerfettoTest, HoldsTracksSlicesAndFlows) {
  const ExportReport report = ExportPerfetto(WriteTrace(), {}, folder_ / "out.pftrace");
  EXPECT_EQ(report.written_events, 7);
  EXPECT_EQ(report.losses, (std::map<std::string, int64_t>{{"no_timing", 1}}));
  EXPECT_EQ(Read(folder_ / "out.pftrace"),
            "track rank 0 on h (pid 9) in process 1\n"
            "track thread 5 in process 1\n"
            "track stream 7 in rank 0 on h (pid 9)\n"
            "track stream 7 (overlap 1) in rank 0 on h (pid 9)\n"
            "track rank 1 on h (pid 9) in process 2\n"
            "track thread 5 in process 2\n"
            "slice thread 5: 100 +800 engine step\n"
            "slice thread 5: 150 +150 backend linear\n"
            "slice thread 5: 160 +10 host_api launch\n"
            "slice thread 5: 400 +100 comm all_reduce bytes=64 sequence=0 communicator=tp\n"
            "slice stream 7: 200 +60 device gemm\n"
            "slice stream 7 (overlap 1): 259 +21 device relu\n"
            "slice thread 5: 410 +90 comm all_reduce bytes=64 sequence=0 communicator=tp\n"
            "flow launch on thread 5 -> gemm on stream 7\n"
            "flow launch on thread 5 -> relu on stream 7 (overlap 1)\n"
            "flow all_reduce on thread 5 -> all_reduce on thread 5\n");
}

TEST_F(PerfettoTest, ShowsLabelsAsATrack) {
  dataset::StepsFile steps;
  steps.run.run_id = "run";
  reconstruct::StepForest step{.engine_step = 4, .begin_ns = 100, .end_ns = 900};
  steps.run.steps = {step};
  steps.labels = {{.status = dataset::LabelStatus::kPositive, .kind = "collective_delay"}};
  steps.numbers = {{}};
  steps.forest = {0};
  dataset::WriteSteps(folder_ / "steps.h5", steps);
  ExportPerfetto(WriteTrace(), folder_ / "steps.h5", folder_ / "out.pftrace");
  const std::string text = Read(folder_ / "out.pftrace");
  EXPECT_NE(text.find("slice step labels: 100 +800  positive collective_delay step=4\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace teller::interop
