// Cost of one event in the target (agent), and rates of the draining parent (collect).
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <cstring>

#include "src/agent/cupti_decoder.h"
#include "src/collect/process_events.h"
#include "src/collect/session.h"
#include "src/core/error.h"
#include "tests/benchmarks/operator_loop.h"
#include "tests/support/temporary_folder.h"

namespace teller::collect {
namespace {

using testing_support::TemporaryFolder;

/// The agent inside this process, with a session that drains it meanwhile. Once a process: NVTX and
/// torch attach once.
class Observed {
 public:
  static Observed& Instance() {
    static Observed observed;
    return observed;
  }
  Session& session() { return *session_; }

 private:
  Observed() : session_(Session::Start({.output = folder_ / "t.h5", .level = Level::kOff})) {
    for (const auto& [name, value] : session_->Environment()) {
      if (name != "LD_PRELOAD") setenv(name.c_str(), value.c_str(), 1);
    }
    setenv("KINETO_LOG_LEVEL", "99", 1);  // the torch profiler talks on stderr otherwise
    TELLER_CHECK(dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW) != nullptr);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Session> session_;
};

void SetLevelAndSettle(Level level) {
  Observed::Instance().session().SetLevel(level);
  timespec settle{0, 50'000'000};
  nanosleep(&settle, nullptr);
}

/// NVTX as a program has it: push and pop, no message lookup of its own. Argument: TellerLevel.
void BM_NvtxPair(benchmark::State& state) {
  SetLevelAndSettle(static_cast<Level>(state.range(0)));
  for (auto _ : state) {
    nvtxRangePushA("benchmark range");
    nvtxRangePop();
  }
  SetLevelAndSettle(Level::kOff);
}
BENCHMARK(BM_NvtxPair)->ArgName("level")->Arg(TELLER_LEVEL_OFF)->Arg(TELLER_LEVEL_RANGES);

/// The same in a library whose NVTX has found an empty tool (1), or none (0).
void BM_NvtxPairUnobserved(benchmark::State& state) {
  const bool tool = state.range(0) != 0;
  const char* library = tool ? TELLER_NVTX_LOOP_EMPTY : TELLER_NVTX_LOOP_BARE;
  const char* held = std::getenv("NVTX_INJECTION64_PATH");
  const std::string before = held == nullptr ? "" : held;
  tool ? setenv("NVTX_INJECTION64_PATH", library, 1) : unsetenv("NVTX_INJECTION64_PATH");
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const auto run =
      opened == nullptr
          ? nullptr
          : reinterpret_cast<int64_t (*)(int64_t)>(dlsym(opened, "TellerRunNvtxPairs"));
  if (run == nullptr) return state.SkipWithError("the library with NVTX could not be opened");
  run(1);  // NVTX looks for its tool
  before.empty() ? unsetenv("NVTX_INJECTION64_PATH")
                 : setenv("NVTX_INJECTION64_PATH", before.c_str(), 1);
  constexpr int64_t kPairs = 10'000;
  for (auto _ : state) state.SetIterationTime(static_cast<double>(run(kPairs)) / 1e9);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kPairs);
}
BENCHMARK(BM_NvtxPairUnobserved)->ArgName("tool")->Arg(0)->Arg(1)->UseManualTime();

/// A function of the library that holds torch.
template <typename Function>
Function OperatorLoop(benchmark::State& state, const char* name) {
  static void* library = dlopen(TELLER_OPERATOR_LOOP, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    state.SkipWithError("the library with torch could not be opened");
    return nullptr;
  }
  return reinterpret_cast<Function>(dlsym(library, name));
}

constexpr int64_t kOperators = 20'000;

void RunOperators(benchmark::State& state, const char* name) {
  const auto run = OperatorLoop<int64_t (*)(int64_t)>(state, name);
  if (run == nullptr) return;
  for (auto _ : state) state.SetIterationTime(static_cast<double>(run(kOperators)) / 1e9);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kOperators);
}

/// A torch record of one operator in a hot loop. Argument: TellerLevel.
void BM_Operator(benchmark::State& state) {
  OperatorLoop<void*>(state,
                      "TellerRunRecordFunctions");  // torch must be there before the agent looks
  SetLevelAndSettle(static_cast<Level>(state.range(0)));
  RunOperators(state, "TellerRunRecordFunctions");
  SetLevelAndSettle(Level::kOff);
}
BENCHMARK(BM_Operator)
    ->ArgName("level")
    ->Arg(TELLER_LEVEL_OFF)
    ->Arg(TELLER_LEVEL_FULL)
    ->UseManualTime();

void BM_OperatorEmptyCallback(benchmark::State& state) {
  SetLevelAndSettle(Level::kOff);
  RunOperators(state, "TellerRunWithEmptyCallback");
}
BENCHMARK(BM_OperatorEmptyCallback)->UseManualTime();

void BM_OperatorTorchProfiler(benchmark::State& state) {
  SetLevelAndSettle(Level::kOff);
  RunOperators(state, "TellerRunUnderProfiler");
}
BENCHMARK(BM_OperatorTorchProfiler)->UseManualTime();

/// Sums up, so that nothing is left out by the compiler.
class Summing final : public agent::CuptiReceiver {
 public:
  void Take(const agent::CuptiEvent& event) noexcept override {
    sum += event.record.end - event.record.begin;
  }
  uint64_t sum = 0;
};

agent::CuptiFunctions OpenCupti(benchmark::State& state) {
  void* library = dlopen(TELLER_CUPTI12_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    state.SkipWithError("no libcupti 12 in the wheel");
    return {};
  }
  const auto find = [&](const char* name) { return dlsym(library, name); };
  return {reinterpret_cast<decltype(agent::CuptiFunctions::next_record)>(
              find("cuptiActivityGetNextRecord")),
          reinterpret_cast<decltype(agent::CuptiFunctions::callback_name)>(
              find("cuptiGetCallbackName"))};
}

/// A full buffer of kernels and their launches. Items are records. Argument 1: our decoder; 0: the
/// bare walk by libcupti.
void BM_CuptiDecode(benchmark::State& state) {
  const agent::CuptiFunctions cupti = OpenCupti(state);
  if (cupti.next_record == nullptr) return;
  constexpr std::size_t kPairs = 16384;
  struct Pair {
    CUpti_ActivityAPI call;
    CUpti_ActivityKernel9 kernel;
  };
  std::vector<Pair> pairs(kPairs);
  for (Pair& pair : pairs) {
    pair.call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    pair.call.cbid = 211;
    pair.kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    pair.kernel.name = "kernel";
  }
  auto* buffer = reinterpret_cast<uint8_t*>(pairs.data());
  const std::size_t bytes = pairs.size() * sizeof(Pair);
  for (auto _ : state) {
    if (state.range(0) != 0) {
      Summing receiver;
      agent::DecodeCuptiBuffer(cupti, buffer, bytes, receiver);
      benchmark::DoNotOptimize(receiver.sum);
    } else {
      CUpti_Activity* record = nullptr;
      while (cupti.next_record(buffer, bytes, &record) == CUPTI_SUCCESS)
        benchmark::DoNotOptimize(record);
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kPairs * 2));
}
BENCHMARK(BM_CuptiDecode)->ArgName("decode")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

constexpr std::size_t kRecords = 1 << 20;

std::vector<TellerRecord> SomeRecords() {
  std::vector<TellerRecord> records(kRecords);
  uint64_t ticks = 1'000'000;
  for (std::size_t i = 0; i < records.size(); ++i) {
    TellerRecord& record = records[i];
    record.begin = ticks += 1000 + i * 7919 % 977;
    record.end = ticks + 500 + i * 104729 % 3001;
    record.bytes = -1;
    record.name = static_cast<uint32_t>(i * 31 % 60);
    record.track = 1000 + static_cast<uint32_t>(i % 3);
    record.comm = UINT32_MAX;
    record.sequence = record.peer = -1;
    record.flags = TELLER_RECORD_TICKS;
    record.layer = TELLER_LAYER_BACKEND;
    record.kind = TELLER_KIND_OPERATOR;
    record.source = TELLER_SOURCE_TORCH;
  }
  return records;
}

std::vector<std::string> SomeNames() {
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("aten::operator_" + std::to_string(i));
  return names;
}

/// Full segments of a pool into a spool file: what runs beside the target. Items are records.
void BM_DrainRaw(benchmark::State& state) {
  const TemporaryFolder folder;
  const std::vector<TellerRecord> records = SomeRecords();
  for (auto _ : state) {
    Spool spool(folder / "spool");
    for (std::size_t i = 0; i < records.size(); i += TELLER_SEGMENT_RECORDS) {
      spool.Take(
          {records.data() + i, std::min<std::size_t>(TELLER_SEGMENT_RECORDS, records.size() - i)});
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * records.size()));
}
BENCHMARK(BM_DrainRaw)->Unit(benchmark::kMillisecond);

/// Spooled records into the compressed trace file. Items are records.
void BM_DrainCompressed(benchmark::State& state) {
  const TemporaryFolder folder;
  Spool spool(folder / "spool");
  for (const TellerRecord& record : SomeRecords()) spool.Take({&record, 1});
  const TickClock clock({TellerClockTriple{0, 0, 0, 10}}, 0.4);
  for (auto _ : state) {
    std::filesystem::remove(folder / "t.h5");
    trace::TraceWriter writer(folder / "t.h5", {});
    WriteProcessEvents(spool, SomeNames(), clock, writer.AddProcess({}), writer);
    writer.Close();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * spool.size()));
}
BENCHMARK(BM_DrainCompressed)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace teller::collect
