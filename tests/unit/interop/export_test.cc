#include "src/interop/export.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "src/interop/import_file.h"
#include "src/trace/trace_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

using trace::Kind;
using trace::Layer;

std::string Content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class ExportTest : public ::testing::Test {
 protected:
  /// A step whose operators have one, two and three levels, and what the published layout cannot
  /// hold.
  std::filesystem::path WriteTrace() {
    const std::filesystem::path path = folder_ / "trace.h5";
    trace::TraceWriter writer(path, {.run_id = "run", .workload = "vllm"});
    const int process = writer.AddProcess({.rank = RankId{1}, .host = "h,\"1\"", .pid = 9});
    trace::EventTable events;
    const auto add = [&](int64_t begin, int64_t end, const char* name, Layer layer, Kind kind,
                         uint64_t correlation = 0, uint16_t flags = 0) {
      events.Append({.begin_ns = begin,
                     .end_ns = end,
                     .name = writer.Intern(name),
                     .layer = layer,
                     .kind = kind,
                     .track = flags == 0 ? 5u : 7u,
                     .correlation = correlation,
                     .flags = flags});
    };
    add(100, 900, "step", Layer::kEngine, Kind::kRange);
    add(110, 300, "outer", Layer::kBackend, Kind::kOperator);
    add(120, 290, "middle", Layer::kBackend, Kind::kOperator);
    add(130, 280, "inner", Layer::kBackend, Kind::kOperator);
    add(140, 150, "cudaLaunchKernel", Layer::kHostApi, Kind::kLaunch, 3);
    add(200, 260, "gemm", Layer::kDevice, Kind::kKernel, 3, trace::kFlagOnDevice);
    add(310, 400, "single", Layer::kBackend, Kind::kOperator);
    add(320, 330, "cuLaunchKernel", Layer::kHostApi, Kind::kLaunch, 4);
    add(340, 360, "relu", Layer::kDevice, Kind::kKernel, 4, trace::kFlagOnDevice);
    add(410, 420, "nccl:all_reduce", Layer::kComm, Kind::kCollective);
    add(500, 600, "nested", Layer::kEngine, Kind::kRange);
    add(700, 710, "cudaFree", Layer::kHostApi, Kind::kApiOther);
    add(950, 960, "outside", Layer::kBackend, Kind::kOperator);
    add(800, 810, "orphan", Layer::kDevice, Kind::kKernel, 0, trace::kFlagOnDevice);
    writer.Append(process, events);
    writer.AppendLogs({{.file = writer.Intern("stdout"), .text = "INFO hello"}});
    writer.Close();
    return path;
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(ExportTest, PublishedLayoutCountsWhatItCannotHold) {
  const ExportReport report = ExportPublished(WriteTrace(), {}, folder_ / "out");
  EXPECT_EQ(report.written_events, 9);
  EXPECT_EQ(report.losses, (std::map<std::string, int64_t>{{"call_without_operator", 1},
                                                           {"device_item_without_kept_launch", 1},
                                                           {"nested_range", 1},
                                                           {"operator_level", 1},
                                                           {"outside_steps", 1}}));
  EXPECT_EQ(Content(folder_ / "out/vllm/run/log.txt"), "INFO hello\n");
}

TEST_F(ExportTest, PublishedLayoutKeepsWhatItHoldsThereAndBack) {
  ExportPublished(WriteTrace(), {}, folder_ / "out");
  ImportToFile({folder_ / "out"}, folder_ / "back.h5", false, {});
  const trace::TraceReader reader(folder_ / "back.h5");
  ASSERT_EQ(reader.processes().size(), 1u);
  EXPECT_EQ(reader.processes()[0].rank, RankId{1});
  EXPECT_EQ(reader.processes()[0].pid, 9u);
  const trace::EventTable events = reader.ReadEvents(0);
  std::string text;
  for (std::size_t i = 0; i < events.size(); ++i) {
    text += std::string(trace::LayerName(events.layer[i])) + " " +
            std::string(reader.strings().View(events.name[i])) + " " +
            std::to_string(events.begin_ns[i]) + "-" + std::to_string(events.end_ns[i]) +
            " track " + std::to_string(events.track[i]) + " correlation " +
            std::to_string(events.correlation[i]) + "\n";
  }
  EXPECT_EQ(text,
            "engine step 100-900 track 5 correlation 0\n"
            "backend outer 110-300 track 5 correlation 0\n"
            "backend inner 130-280 track 5 correlation 0\n"
            "host_api cudaLaunchKernel 140-150 track 5 correlation 3\n"
            "device gemm 200-260 track 7 correlation 3\n"
            "backend single 310-400 track 5 correlation 0\n"
            "host_api cuLaunchKernel 320-330 track 5 correlation 4\n"
            "device relu 340-360 track 7 correlation 4\n"
            "comm nccl:all_reduce 410-420 track 5 correlation 0\n");
  // A second time there is nothing left to lose.
  const ExportReport again = ExportPublished(folder_ / "back.h5", {}, folder_ / "again");
  EXPECT_EQ(again.written_events, 9);
  EXPECT_TRUE(again.losses.empty());
}

TEST_F(ExportTest, CsvHoldsEveryEvent) {
  const ExportReport report = ExportCsv(WriteTrace(), folder_ / "out.csv");
  EXPECT_EQ(report.written_events, 14);
  const std::string text = Content(folder_ / "out.csv");
  EXPECT_NE(text.find("rank,host,node,pid,layer,kind,name,begin_ns,end_ns,"), std::string::npos);
  EXPECT_NE(text.find("1,\"h,\"\"1\"\"\",,9,device,kernel,gemm,200,260,7,1,3,0,,,,,,8\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace teller::interop
