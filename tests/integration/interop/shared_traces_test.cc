// Real traces that are not in the repository; every case is skipped where they are absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "src/interop/importer.h"

namespace teller::interop {
namespace {

using trace::Kind;
using trace::Layer;

std::filesystem::path TracesFolder() {
  const char* shared = std::getenv("TELLER_SHARED_DIR");
  const std::filesystem::path root =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(TELLER_SOURCE_DIR).parent_path() / "shared";
  return root / "traces";
}

class SharedTracesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(TracesFolder() / "MANIFEST.tsv")) {
      GTEST_SKIP() << "no shared traces at " << TracesFolder();
    }
  }
  void Import(const std::string& file) {
    log_ = RunImport(PlanImport({TracesFolder() / file}), {}, trace_);
  }

  /// Device kernels by (process, correlation of a host call).
  std::map<std::pair<std::size_t, uint64_t>, int> KernelsByLaunch() const {
    std::map<std::pair<std::size_t, uint64_t>, int> kernels;
    for (std::size_t process = 0; process < trace_.events.size(); ++process) {
      const trace::EventTable& events = trace_.events[process];
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (events.layer[i] == Layer::kHostApi && events.correlation[i] != 0)
          kernels[{process, events.correlation[i]}] = 0;
      }
      for (std::size_t i = 0; i < events.size(); ++i) {
        const bool kernel =
            events.kind[i] == Kind::kKernel ||
            (events.layer[i] == Layer::kComm && (events.flags[i] & trace::kFlagOnDevice) != 0);
        const auto launch = kernels.find({process, events.correlation[i]});
        if (kernel && launch != kernels.end()) ++launch->second;
      }
    }
    return kernels;
  }

  MemoryTrace trace_;
  ImportLog log_;
};

TEST_F(SharedTracesTest, MakesNoPairAcrossTheProcessesOfAnNsightReport) {
  Import("nsys-ai/mfu_2gpu_before.sqlite");
  int pairs = 0;
  for (const auto& [launch, kernels] : KernelsByLaunch()) pairs += kernels;
  // 4,280 pairs without the process id, counted by sqlite3: 264 shared ids make 294 false ones.
  EXPECT_EQ(pairs, 4280 - 294);
  EXPECT_EQ(trace_.processes.size(), 2u);
  EXPECT_EQ(trace_.processes[0].host, "modal");
}

TEST_F(SharedTracesTest, ReadsNcclRangesOfRegisteredStrings) {
  Import("nsys-ai/mfu_2gpu_before.sqlite");
  int ranges = 0;
  for (const trace::EventTable& events : trace_.events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::string_view name = trace_.Text(events.name[i]);
      const bool host = (events.flags[i] & trace::kFlagOnDevice) == 0;
      ranges += host && name.starts_with("nccl") && !name.starts_with("nccl:") ? 1 : 0;
    }
  }
  EXPECT_EQ(ranges, 462);
}

TEST_F(SharedTracesTest, GivesAGraphLaunchAllItsKernels) {
  Import("tracelens/vllm_decode_full_graph_execution.json.gz");
  int most = 0;
  for (const auto& [launch, kernels] : KernelsByLaunch()) most = std::max(most, kernels);
  EXPECT_EQ(most, 421);
}

TEST_F(SharedTracesTest, KeepsEveryDigitOfEveryTimeStamp) {
  Import("hta/nccl_data.json.gz");
  // Sums by Python's decimal; a quarter of the stamps differ through double.
  uint64_t begin_sum = 0;  // modulo 2^64
  int64_t duration_sum = 0;
  const trace::EventTable& events = trace_.events.at(0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    begin_sum += static_cast<uint64_t>(events.begin_ns[i] - 1711964646000000000);
    duration_sum += events.end_ns[i] - events.begin_ns[i];
  }
  EXPECT_EQ(events.size(), 26902u);
  EXPECT_EQ(begin_sum, 9266857676154209975u);
  EXPECT_EQ(duration_sum, 3317387274);
}

TEST_F(SharedTracesTest, CountsEachCollectiveOnce) {
  Import("param/dlrm_kineto.tar.gz");
  ASSERT_EQ(trace_.processes.size(), 8u);
  for (const trace::EventTable& events : trace_.events) {
    int counted = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.layer[i] != Layer::kComm) continue;
      EXPECT_EQ(events.kind[i], Kind::kCollective);  // all-to-all by send and receive
      counted += (events.flags[i] & trace::kFlagJoined) == 0 ? 1 : 0;
    }
    EXPECT_EQ(counted, 8);
  }
}

}  // namespace
}  // namespace teller::interop
