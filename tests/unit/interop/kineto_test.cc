#include "src/interop/kineto.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "src/core/error.h"

namespace teller::interop {
namespace {

using trace::Kind;
using trace::Layer;

struct Imported {
  MemoryTrace trace;
  ImportLog log;
  KinetoFile file;

  std::string_view Name(std::size_t process, std::size_t row) const {
    return trace.Text(trace.events[process].name[row]);
  }
};

Imported Import(std::string_view json, std::optional<int32_t> file_rank = std::nullopt) {
  Imported imported;
  TextStream in(json);
  imported.file = ImportKineto(in, file_rank, {}, imported.trace, imported.log);
  return imported;
}

TEST(KinetoTest, PutsEachCategoryIntoItsLayer) {
  const Imported got = Import(R"({"distributedInfo":{"rank":3,"world_size":8},"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":7,"tid":8,"ts":1,"dur":90},
    {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":2,"dur":50},
    {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":3,"dur":4,"args":{"correlation":11}},
    {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":5,"ts":9,"dur":6,"args":{"device":0,"stream":5,"correlation":11}},
    {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":5,"ts":16,"dur":1,"args":{"stream":5,"bytes":64}},
    {"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"python3"}}]})");
  ASSERT_EQ(got.trace.processes.size(), 1u);
  EXPECT_EQ(got.trace.processes[0].rank, RankId{3});
  EXPECT_EQ(got.trace.processes[0].pid, 7u);
  EXPECT_EQ(got.trace.processes[0].comm, "python3");
  const trace::EventTable& events = got.trace.events[0];
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events.layer, (std::vector<Layer>{Layer::kEngine, Layer::kBackend, Layer::kHostApi,
                                              Layer::kDevice, Layer::kDevice}));
  EXPECT_EQ(events.kind, (std::vector<Kind>{Kind::kRange, Kind::kOperator, Kind::kLaunch,
                                            Kind::kKernel, Kind::kMemcpy}));
  EXPECT_EQ(events.correlation[3], 11u);
  EXPECT_EQ(events.track[3], 5u);
  EXPECT_EQ(events.bytes[4], 64);
  EXPECT_EQ(events.begin_ns[3], 9000);
  EXPECT_EQ(events.end_ns[3], 15000);
  EXPECT_EQ(got.log.source_counts().at("cpu_op"), 1);
  EXPECT_EQ(got.log.source_counts().at("ph:M"), 1);
}

TEST(KinetoTest, AddsTheBaseTimeThatStandsBehindTheEvents) {
  const Imported got = Import(R"({"traceEvents":[
    {"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":4458676522690.655,"dur":0.345}],
    "baseTimeNanoseconds":1711964646000000000})");
  EXPECT_EQ(got.trace.events[0].begin_ns[0], 1711964646000000000 + 4458676522690655);
  EXPECT_EQ(got.trace.events[0].end_ns[0] - got.trace.events[0].begin_ns[0], 345);
}

TEST(KinetoTest, KeepsATrailingEmptyEventOutAndCountsIt) {
  const Imported got = Import(
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":1,"dur":2},{}]})");
  EXPECT_EQ(got.trace.events[0].size(), 1u);
  EXPECT_EQ(got.log.CountOf("empty_event"), 1);
}

TEST(KinetoTest, KeepsDurationsOfZeroAndCountsNegativeOnes) {
  const Imported got =
      Import(R"([{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":5,"dur":0},
    {"ph":"X","cat":"cpu_op","name":"b","pid":7,"tid":8,"ts":9,"dur":-3},
    {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":8,"ts":0,"dur":0,"args":{"correlation":4}}])");
  const trace::EventTable& events = got.trace.events[0];
  EXPECT_EQ(events.end_ns, (std::vector<int64_t>{5000, 9000, 0}));
  EXPECT_EQ(events.flags[2] & trace::kFlagNoTiming, trace::kFlagNoTiming);
  EXPECT_EQ(got.log.CountOf("negative_duration_as_zero"), 1);
  EXPECT_EQ(got.log.CountOf("no_timing"), 1);
}

TEST(KinetoTest, TakesNumbersAboveTheSignedRange) {
  const Imported got =
      Import(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,
    "args":{"correlation":18446744073709551615,"Addr":18446744073709551615,"stream":7}},
    {"ph":"X","cat":"kernel","name":"l","pid":0,"tid":7,"ts":92233720368547758080,"dur":1}])");
  ASSERT_EQ(got.trace.events[0].size(), 1u);
  EXPECT_EQ(got.trace.events[0].correlation[0], 18446744073709551615u);
  EXPECT_EQ(got.log.CountOf("bad_time"), 1);
}

TEST(KinetoTest, RepairsBytesThatNoJsonMayHold) {
  const Imported got = Import(
      "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\nb\x01\xff\",\"pid\":7,\"tid\":8,\"ts\":1,"
      "\"dur\":2},"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"pid\":7,\"tid\":8,\"ts\":3,\"dur\":1}]");
  ASSERT_EQ(got.trace.events[0].size(), 2u);
  EXPECT_EQ(got.Name(0, 0), "a b ?");
  EXPECT_EQ(got.Name(0, 1), "c");
  EXPECT_EQ(got.log.CountOf("repaired_text"), 1);
}

TEST(KinetoTest, GoesOnAfterAnUnescapedQuote) {
  const Imported got =
      Import(R"([{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":1,"dur":2},
    {"ph":"X","cat":"cpu_op","name":"say "hello" twice","pid":7,"tid":8,"ts":3,"dur":1},
    {"ph":"X","cat":"cpu_op","name":"odd " one","pid":7,"tid":8,"ts":3,"dur":1},
    {"ph":"X","cat":"cpu_op","name":"d","pid":7,"tid":8,"ts":5,"dur":1}])");
  ASSERT_EQ(got.trace.events[0].size(), 2u);
  EXPECT_EQ(got.Name(0, 1), "d");
  EXPECT_EQ(got.log.CountOf("malformed_record"), 2);
}

TEST(KinetoTest, KeepsWholeEventsOfACutFile) {
  const Imported got =
      Import(R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":1,"dur":2},
    {"ph":"X","cat":"cpu_op","na)");
  EXPECT_TRUE(got.file.cut_short);
  EXPECT_EQ(got.trace.events[0].size(), 1u);
  EXPECT_EQ(got.log.CountOf("json_cut_short"), 1);
}

TEST(KinetoTest, JoinsACollectiveWithItsKernelByTheLaunch) {
  const Imported got = Import(R"([
    {"ph":"X","cat":"user_annotation","name":"nccl:all_to_all","pid":7,"tid":8,"ts":10,"dur":9,"args":{"Input Dims":[[6,4]],"Input type":["float"]}},
    {"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":7,"tid":8,"ts":30,"dur":9},
    {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":12,"dur":2,"args":{"correlation":5}},
    {"ph":"X","cat":"kernel","name":"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t","pid":0,"tid":9,"ts":20,"dur":4,"args":{
  "correlation" : 5, "stream" : 9}}])");
  const trace::EventTable& events = got.trace.events[0];
  EXPECT_EQ(events.layer[3], Layer::kComm);
  EXPECT_EQ(events.kind[3], Kind::kCollective);
  EXPECT_EQ(events.bytes[3], 96);
  EXPECT_NE(events.flags[0] & trace::kFlagJoined, 0);
  EXPECT_EQ(events.flags[1] & trace::kFlagJoined, 0);
}

TEST(KinetoTest, ReadsArgumentsOfACollectiveKernel) {
  const Imported got = Import(
      R"([{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":9,"ts":20,"dur":4,
    "args":{
  "correlation" : 5, "stream" : 9, "Collective name" : "allreduce",
                                                       "In msg nelems" : 2049000,
                                                       "dtype" : "Float",
                                                                 "Process Group Name" : "0",
                                                                                        "Seq" : 12}}])");
  const trace::EventTable& events = got.trace.events[0];
  EXPECT_EQ(events.bytes[0], 8196000);
  EXPECT_EQ(events.sequence[0], 12);
  EXPECT_EQ(got.trace.Text(events.comm[0]), "0");
}

TEST(KinetoTest, GivesDeviceRecordsToTheProcessThatLaunchedThem) {
  const Imported got = Import(R"([
    {"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":1,"dur":2},
    {"ph":"X","cat":"cpu_op","name":"b","pid":7,"tid":8,"ts":4,"dur":2},
    {"ph":"X","cat":"cuda_driver","name":"cuLaunchKernel","pid":9,"tid":9,"ts":1,"dur":2,"args":{"correlation":5}},
    {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":3,"ts":20,"dur":4,"args":{"correlation":5,"stream":3}},
    {"ph":"X","cat":"python_function","name":"main.py(1): f","pid":0,"tid":0,"ts":20,"dur":4}])");
  ASSERT_EQ(got.trace.processes.size(), 2u);
  EXPECT_EQ(got.trace.processes[0].pid, 7u);
  EXPECT_EQ(got.trace.events[0].size(), 3u);
  EXPECT_EQ(got.trace.events[1].size(), 2u);
}

TEST(KinetoTest, KeepsStreamsOfTwoDevicesApart) {
  const Imported got = Import(R"([
    {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":4,"args":{"device":0,"stream":7}},
    {"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":20,"dur":4,"args":{"device":1,"stream":7}}])");
  EXPECT_NE(got.trace.events[0].track[0], got.trace.events[0].track[1]);
  EXPECT_EQ(got.log.CountOf("track_renumbered"), 1);
}

TEST(KinetoTest, LeavesAnOpenRangeOpen) {
  const Imported got = Import(R"([{"ph":"B","cat":"x","name":"outer","pid":7,"tid":8,"ts":1},
    {"ph":"B","cat":"x","name":"inner","pid":7,"tid":8,"ts":2},
    {"ph":"E","pid":7,"tid":8,"ts":5},{"ph":"E","pid":7,"tid":9,"ts":5},
    {"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":6,"dur":2}])");
  const trace::EventTable& events = got.trace.events[0];
  EXPECT_EQ(events.end_ns, (std::vector<int64_t>{8000, 5000, 8000}));
  EXPECT_NE(events.flags[0] & trace::kFlagOpen, 0);
  EXPECT_EQ(events.flags[1] & trace::kFlagOpen, 0);
  EXPECT_EQ(got.log.CountOf("end_without_begin"), 1);
  EXPECT_EQ(got.log.CountOf("open_ended"), 1);
}

TEST(KinetoTest, ReadsTheOlderAutogradProfiler) {
  const Imported got = Import(
      R"([{"name": "aten::mul", "ph": "X", "ts": 1.5, "dur": 3.0, "tid": 1, "pid": "CPU functions", "args": {}},
    {"name": "mul_kernel", "ph": "X", "ts": 4.0, "dur": 1.0, "tid": 0, "pid": "CUDA functions", "args": {}}])");
  ASSERT_EQ(got.trace.processes.size(), 1u);
  EXPECT_EQ(got.trace.events[0].layer, (std::vector<Layer>{Layer::kBackend, Layer::kDevice}));
}

TEST(KinetoTest, TakesTheRankOfTheFileNameWhereTheFileStatesNone) {
  EXPECT_EQ(RankFromFileName("a/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"), 34);
  EXPECT_EQ(RankFromFileName("worker2_step_12.1694128201554.pt.trace.json"), 2);
  EXPECT_EQ(RankFromFileName("1700000000.1-TP-3.trace.json.gz"), 3);
  EXPECT_EQ(RankFromFileName("rank_3/trace.json"), 3);
  EXPECT_EQ(RankFromFileName("rank_not_found.json.gz"), std::nullopt);
  EXPECT_EQ(RankFromFileName("http5.json"), std::nullopt);
  const Imported got = Import(
      R"({"distributedInfo":{"backend":"nccl"},"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":8,"ts":1,"dur":2}]})",
      5);
  EXPECT_EQ(got.trace.processes[0].rank, RankId{5});
}

TEST(KinetoTest, RefusesWhatIsNoJson) {
  ImportLog log;
  MemoryTrace trace;
  TextStream in("hello");
  EXPECT_THROW(ImportKineto(in, std::nullopt, {}, trace, log), DataError);
}

}  // namespace
}  // namespace teller::interop
