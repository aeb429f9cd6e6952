#include "src/interop/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/interop/import_file.h"
#include "src/trace/trace_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kEvent =
    R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":1,"dur":2})";

std::string Kineto(int rank, int world_size) {
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":)" +
         std::to_string(world_size) + R"(},"traceEvents":[)" + std::string(kEvent) + "]}";
}

class ImporterTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::filesystem::path WriteGzip(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path;
  }

  ImportLog Import(const std::vector<std::filesystem::path>& inputs,
                   const ImportOptions& options = {}) {
    trace_ = MemoryTrace();
    return RunImport(PlanImport(inputs), options, trace_);
  }
  std::string Failure(const std::vector<std::filesystem::path>& inputs) {
    try {
      Import(inputs);
    } catch (const DataError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos);
      return message;
    }
    return "no failure";
  }

  testing_support::TemporaryFolder folder_;
  MemoryTrace trace_;
};

TEST_F(ImporterTest, ReadsAFolderOfRanksPlainAndCompressed) {
  Write("run/rank10.json", Kineto(10, 11));
  Write("run/rank2.json", Kineto(2, 11));
  WriteGzip("run/rank3.json.gz", Kineto(3, 11));
  Write("run/stderr.log", "hello\nHF_TOKEN=abcdefgh1234\n");
  const ImportLog log = Import({folder_.path() / "run"});
  ASSERT_EQ(trace_.processes.size(), 3u);
  EXPECT_EQ(trace_.processes[0].rank, RankId{2});
  EXPECT_EQ(trace_.processes[2].rank, RankId{10});
  ASSERT_EQ(trace_.logs.size(), 2u);
  EXPECT_EQ(trace_.logs[1].text, "HF_TOKEN=<masked>");
  EXPECT_EQ(trace_.logs[1].offset, 6u);
  EXPECT_EQ(trace_.Text(trace_.logs[0].file), "stderr.log");
}

TEST_F(ImporterTest, KeepsTextOnRequest) {
  const auto path = Write("a.log", "HF_TOKEN=abcdefgh1234\n");
  Import({path}, {.keep_text = true});
  EXPECT_EQ(trace_.logs.at(0).text, "HF_TOKEN=abcdefgh1234");
}

TEST_F(ImporterTest, TakesRanksFromTheOrderWhereNothingStatesThem) {
  const std::string json = "[" + std::string(kEvent) + "]";
  const ImportLog log = Import({Write("b.json", json), Write("a.json", json)});
  EXPECT_EQ(trace_.processes[0].rank, RankId{0});
  EXPECT_EQ(trace_.processes[1].rank, RankId{1});
  EXPECT_THAT(log.notes(), ::testing::Contains(HasSubstr("by order")));
}

TEST_F(ImporterTest, RefusesTheSameRankTwiceAndRanksOfTwoRuns) {
  EXPECT_THAT(Failure({Write("a.json", Kineto(1, 2)), Write("b.json", Kineto(1, 2))}),
              HasSubstr("both rank 1"));
  EXPECT_THAT(Failure({Write("a.json", Kineto(1, 2)), Write("b.json", Kineto(2, 4))}),
              HasSubstr("run of 4"));
}

TEST_F(ImporterTest, RefusesTwoFormatsAtOnce) {
  const auto published = Write("trace.json", R"({"steps":[{"step_name":"s","start":1,"end":2}]})");
  EXPECT_THAT(Failure({Write("a.json", Kineto(1, 2)), published}), HasSubstr("one kind"));
}

TEST_F(ImporterTest, SaysWhatAFileIsInstead) {
  EXPECT_THAT(Failure({folder_.path() / "none"}), HasSubstr("does not exist"));
  EXPECT_THAT(Failure({Write("empty", "")}), HasSubstr("it is empty"));
  EXPECT_THAT(Failure({Write("a.nsys-rep", "NVIDIA Tegra Profiler Report 2026@4@1@191\n\x01\x02")}),
              HasSubstr("nsys export --type sqlite"));
  EXPECT_THAT(Failure({Write("a.so",
                             "\x7f"
                             "ELF\x02\x01")}),
              HasSubstr("ELF"));
  EXPECT_THAT(Failure({Write("label.json", R"({"id": 1})")}),
              HasSubstr("JSON without traceEvents"));
  EXPECT_THAT(Failure({Write("a.bin", std::string("\0\x01\x02zzzz", 7))}), HasSubstr("binary"));
  EXPECT_THAT(Failure({Write("a.json", R"({"traceEvents":[]})")}), HasSubstr("no event"));
  EXPECT_THAT(Failure({Write("a.sqlite", std::string("SQLite format 3\0garbage", 23))}),
              HasSubstr("a.sqlite"));
}

TEST_F(ImporterTest, KeepsWhatATruncatedGzipHolds) {
  std::string json = R"({"traceEvents":[)";
  for (int i = 0; i < 3000; ++i) {
    json += R"({"ph":"X","cat":"cpu_op","name":"op)" + std::to_string(i * 7919 % 3000) +
            R"(","pid":7,"tid":8,"ts":)" + std::to_string(i * 10) + R"(,"dur":2},)";
  }
  const auto whole = WriteGzip("whole.json.gz", json);
  std::ifstream in(whole, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const ImportLog log = Import({Write("cut.json.gz", bytes.substr(0, bytes.size() / 2))});
  EXPECT_GT(trace_.events.at(0).size(), 1000u);
  EXPECT_LT(trace_.events.at(0).size(), 3000u);
  EXPECT_EQ(log.CountOf("archive_cut_short"), 1);
  EXPECT_EQ(log.CountOf("json_cut_short"), 1);
}

TEST_F(ImporterTest, EndsOnAGzipBombInBoundedMemory) {
  const std::filesystem::path path = folder_.path() / "bomb.json.gz";
  gzFile file = gzopen(path.c_str(), "wb9");
  gzputs(file, "[{\"ph\":\"X\",\"a\":\"");
  const std::string block(1 << 20, 'a');
  for (int i = 0; i < 100; ++i) gzwrite(file, block.data(), static_cast<unsigned>(block.size()));
  gzclose(file);
  EXPECT_THAT(Failure({path}), HasSubstr("250 times"));
}

TEST_F(ImporterTest, RepairsLogsOfAnyBytes) {
  Import({Write("a.log", std::string("one\r\n\xff two\n\x1b[32mthree", 21))});
  ASSERT_EQ(trace_.logs.size(), 3u);
  EXPECT_EQ(trace_.logs[0].text, "one");
  EXPECT_EQ(trace_.logs[2].text, "\x1b[32mthree");
}

TEST_F(ImporterTest, ReadsThePublishedLayout) {
  Write("vllm/s1/trace.json",
        R"({"steps":[{"step_name":"execute","start":1000,"end":9000,"torch_frontend_ops":[
    {"op_name":"Linear","start":1100,"end":5000,"torch_backend_ops":[{"op_name":"aten::mm","start":1200,"end":4000,
    "runtime_calls":[{"name":"cudaLaunchKernel","start":1300,"end":1400,"kernels":[
      {"name":"gemm","gpu_start":1500,"duration":300},{"name":"ncclDevKernel_AllReduce","gpu_start":1900,"duration":5}]}],
    "driver_calls":[{"name":"cuStreamSynchronize","start":1410,"end":1420,"kernels":[]}]}]}]}]})");
  Write("vllm/s1/log.txt", "INFO step\n");
  Write("vllm/s1/annotation.json", R"({"label":1})");
  const ImportLog log = Import({folder_.path() / "vllm"});
  ASSERT_EQ(trace_.events.size(), 1u);
  const trace::EventTable& events = trace_.events[0];
  using trace::Layer;
  EXPECT_EQ(events.layer,
            (std::vector<Layer>{Layer::kEngine, Layer::kBackend, Layer::kBackend, Layer::kHostApi,
                                Layer::kDevice, Layer::kComm, Layer::kHostApi}));
  EXPECT_EQ(events.end_ns[4], 1800);
  EXPECT_EQ(events.correlation[4], events.correlation[3]);
  EXPECT_NE(events.correlation[4], 0u);
  EXPECT_EQ(trace_.logs.size(), 1u);
  EXPECT_EQ(log.CountOf("skipped_file"), 1);
}

TEST_F(ImporterTest, ReadsNcclInspectorLines) {
  const auto path = Write(
      "a.jsonl",
      R"({"header":{"id":"0x7f","rank":2,"n_ranks":8},"metadata":{"dump_timestamp_us":1000000,"hostname":"h","pid":5},"coll_perf":{"coll":"AllReduce","coll_sn":7,"coll_msg_size_bytes":64,"coll_exec_time_us":30}})"
      "\n"
      "{broken\n"
      R"({"header":{"id":"0x7f","rank":2,"n_ranks":8},"metadata":{"dump_timestamp_us":2000000,"hostname":"h","pid":5},"dump_stats":{"coll_records":1}})"
      "\n"
      R"({"coll_perf":{"coll":"ReduceScatter","coll_sn":8,"coll_exec_time_us":3,"event_trace_ts":{"kernel_events":[{"kernel_start_ts":1500,"kernel_stop_ts":1600},{"kernel_start_ts":1490,"kernel_stop_ts":1700}]}}})"
      "\n");
  const ImportLog log = Import({path});
  ASSERT_EQ(trace_.processes.size(), 1u);
  EXPECT_EQ(trace_.processes[0].rank, RankId{2});
  EXPECT_EQ(trace_.processes[0].host, "h");
  const trace::EventTable& events = trace_.events[0];
  EXPECT_EQ(events.begin_ns, (std::vector<int64_t>{999970000, 1490000}));
  EXPECT_EQ(events.end_ns, (std::vector<int64_t>{1000000000, 1700000}));
  EXPECT_EQ(events.sequence, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(log.CountOf("malformed_record"), 1);
  EXPECT_EQ(log.CountOf("time_from_dump"), 1);
}

class MergeTest : public ImporterTest {
 protected:
  std::filesystem::path WriteTrace(const std::string& name, const std::string& run, int rank) {
    const std::filesystem::path path = folder_.path() / name;
    trace::TraceWriter writer(path, {.run_id = run, .hosts = {name}, .workload = "vllm"});
    const int process = writer.AddProcess({.rank = RankId{rank}, .host = name, .pid = 9});
    writer.Intern("only in this file " + name);
    trace::EventTable events;
    events.Append({.begin_ns = 5,
                   .end_ns = 6,
                   .name = writer.Intern("op " + name),
                   .layer = trace::Layer::kBackend});
    writer.Append(process, events);
    writer.AppendLogs(
        {{.process = process, .file = writer.Intern("stdout"), .text = "line of " + name}});
    writer.AppendClock({{.process = process, .monotonic_ns = rank}});
    writer.SetStats({{.name = "dropped", .unit = "events", .count = 2},
                     {.name = "source:x", .unit = "records", .count = 3}});
    writer.Close();
    return path;
  }
};

TEST_F(MergeTest, MergesTheFilesOfSeveralHosts) {
  const std::filesystem::path merged = folder_.path() / "m.h5";
  ImportToFile({WriteTrace("a.h5", "run", 0), WriteTrace("b.h5", "run", 1)}, merged, false, {});
  const trace::TraceReader reader(merged);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.meta().run_id, "run");
  EXPECT_EQ(reader.meta().hosts, (std::vector<std::string>{"a.h5", "b.h5"}));
  ASSERT_EQ(reader.processes().size(), 2u);
  EXPECT_EQ(reader.strings().View(reader.ReadEvents(1).name[0]), "op b.h5");
  EXPECT_EQ(reader.ReadLogs()[1].process, 1);
  EXPECT_EQ(reader.strings().View(reader.ReadLogs()[1].file), "stdout");
  EXPECT_EQ(reader.ReadClock()[1].process, 1);
  std::map<std::string, int64_t> stats;
  for (const trace::Stat& stat : reader.ReadStats()) stats[stat.name] = stat.count;
  EXPECT_EQ(stats, (std::map<std::string, int64_t>{{"dropped", 4}, {"source:x", 6}}));
}

TEST_F(MergeTest, RefusesDifferentRunsAndTheSameRankTwice) {
  EXPECT_THAT(Failure({WriteTrace("a.h5", "run", 0), WriteTrace("b.h5", "other", 1)}),
              HasSubstr("one run"));
  std::filesystem::remove(folder_.path() / "a.h5");
  std::filesystem::remove(folder_.path() / "b.h5");
  EXPECT_THAT(Failure({WriteTrace("a.h5", "run", 0), WriteTrace("b.h5", "run", 0)}),
              HasSubstr("both rank 0"));
}

TEST_F(MergeTest, RefusesAForeignHdf5File) {
  EXPECT_THAT(Failure({Write("x.h5", std::string("\x89HDF\r\n\x1a\n", 8) + std::string(100, 'x'))}),
              HasSubstr("x.h5"));
}

TEST_F(ImporterTest, OverwritesNothingUnlessTold) {
  const auto input = Write("a.json", Kineto(0, 1));
  const auto output = Write("out.h5", "precious");
  EXPECT_THROW(ImportToFile({input}, output, false, {}), ConfigError);
  ImportToFile({input}, output, true, {});
  EXPECT_TRUE(trace::TraceReader(output).complete());
}

TEST_F(ImporterTest, LeavesNothingBehindWhenItFails) {
  EXPECT_THROW(ImportToFile({Write("in/a.json", "[]")}, folder_.path() / "out/x.h5", false, {}),
               Error);
  std::filesystem::create_directories(folder_.path() / "out");
  EXPECT_THROW(ImportToFile({Write("in/a.json", "[{}]")}, folder_.path() / "out/x.h5", false, {}),
               DataError);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "out"));
}

}  // namespace
}  // namespace teller::interop
