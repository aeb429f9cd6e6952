// The whole way of device activity without a device: a driver and a libcupti of the tests' own
// (fake_cuda.cc) call the agent as the real ones do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using testing::HasSubstr;

const std::string kTests = std::string(TELLER_BINARY_DIR) + "/tests/";
const std::string kFakes = kTests + "fake_cuda";
/// 40 launches on a thread of their own, 2 x 10 copies, 5 fills, 4 launches of a graph of 3
/// kernels.
const std::string kProgram = kTests + "cuda_program 40 10 5 4";

class CuptiTest : public ::testing::Test {
 protected:
  Ran Run(const std::string& environment = "", const std::string& options = "") {
    return RunShell(
        CollectLine(File(), "--force " + options,
                    "env LD_LIBRARY_PATH=" + kFakes + " " + environment + " " + kProgram));
  }
  Collected Collect(const std::string& environment = "", const std::string& options = "") {
    const Ran ran = Run(environment, options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("kernels=52\n"));
    return Collected(File());
  }
  std::filesystem::path File() const { return folder_ / "t.h5"; }

  TemporaryFolder folder_;
};

std::map<uint64_t, trace::Event> ByCorrelation(const std::vector<trace::Event>& events) {
  std::map<uint64_t, trace::Event> found;
  for (const trace::Event& event : events) found[event.correlation] = event;
  return found;
}

class CuptiVersionTest : public CuptiTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(CuptiVersionTest, CountsEveryCallAndTheWorkItStarted) {
  const Collected collected = Collect(std::string("FAKE_CUPTI=") + GetParam());
  EXPECT_THAT(collected.CountByName(),
              testing::UnorderedElementsAre(
                  testing::Pair("cuLaunchKernel", 43), testing::Pair("add_one(float*)", 52),
                  testing::Pair("cuMemcpyHtoD_v2", 10), testing::Pair("cuMemcpyDtoH_v2", 10),
                  testing::Pair("Memcpy HtoD", 10), testing::Pair("Memcpy DtoH", 10),
                  testing::Pair("cuMemsetD8_v2", 5), testing::Pair("Memset", 5),
                  testing::Pair("cuGraphLaunch", 4), testing::Pair("cuStreamSynchronize", 2),
                  testing::Pair("Stream Sync", 2)));
  EXPECT_EQ(collected.Stat("attached_cupti"), 1);
  EXPECT_EQ(collected.Stat("cupti_overhead"), 1000);  // 500 ns at each of two synchronisations
  for (const char* loss : {"dropped_by_cupti", "damaged_cupti_buffer", "untimed_by_cupti"})
    EXPECT_EQ(collected.Stat(loss), 0) << loss;
}

INSTANTIATE_TEST_SUITE_P(Versions, CuptiVersionTest, ::testing::Values("12", "13"),
                         [](const auto& test) { return std::string("Cupti") + test.param; });

TEST_F(CuptiTest, LinksKernelsToTheirLaunchesOnTheTraceClock) {
  const Collected collected = Collect();
  const auto launches = ByCorrelation(collected.Named("cuLaunchKernel"));
  const auto graph_launches = ByCorrelation(collected.Named("cuGraphLaunch"));
  std::set<uint64_t> nodes;
  int launched = 0, in_graphs = 0;
  for (const trace::Event& kernel : collected.Named("add_one(float*)")) {
    EXPECT_TRUE(kernel.on_device());
    EXPECT_EQ(kernel.track, 7u);
    const bool in_graph = kernel.graph_node != 0;
    const auto& calls = in_graph ? graph_launches : launches;
    ASSERT_TRUE(calls.contains(kernel.correlation));
    // The fake takes its times while the call runs, from the agent's clock.
    EXPECT_GE(kernel.begin_ns, calls.at(kernel.correlation).begin_ns);
    EXPECT_LE(kernel.begin_ns, calls.at(kernel.correlation).end_ns);
    if (in_graph) nodes.insert(kernel.graph_node);
    ++(in_graph ? in_graphs : launched);
  }
  EXPECT_EQ(launched, 40);
  EXPECT_EQ(in_graphs, 12);
  EXPECT_EQ(nodes, (std::set<uint64_t>{0x500000001, 0x500000002, 0x500000003}));
  EXPECT_EQ(collected.Named("Memcpy HtoD").at(0).bytes, 4096);
}

TEST_F(CuptiTest, MakesOneEventOfAGraphLaunchWhereAsked) {
  const Collected collected = Collect("", "--graphs whole");
  const auto graphs = collected.Named("CUDA Graph");
  ASSERT_EQ(graphs.size(), 4u);
  EXPECT_EQ(graphs[0].kind, trace::Kind::kGraph);
  EXPECT_EQ(graphs[0].correlation, collected.Named("cuGraphLaunch").at(0).correlation);
  EXPECT_EQ(collected.Named("add_one(float*)").size(), 40u);
}

TEST_F(CuptiTest, NamesThreadsAsTheKernelDoes) {
  const Collected collected = Collect();
  std::set<uint32_t> tracks;
  for (const trace::Event& event : collected.Named("cuLaunchKernel")) tracks.insert(event.track);
  for (const trace::Event& event : collected.Named("cuMemsetD8_v2")) tracks.insert(event.track);
  EXPECT_EQ(tracks.size(), 2u);  // launches elsewhere; capture and fills on the first thread
  EXPECT_TRUE(tracks.contains(collected.reader.processes().at(0).pid));
}

TEST_F(CuptiTest, CountsWhatCuptiDropsAndWhatHadNotEnded) {
  const Collected collected = Collect("FAKE_CUPTI_DROPS=17 FAKE_CUPTI_UNTIMED=1");
  EXPECT_EQ(collected.Stat("dropped_by_cupti"), 17);
  EXPECT_EQ(collected.Stat("untimed_by_cupti"), 2);
  EXPECT_EQ(collected.Named("Memset").size(), 5u);
}

TEST_F(CuptiTest, SaysOneLineWhereAnotherToolHoldsCupti) {
  const Ran ran = Run("FAKE_CUPTI_BUSY=1");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, HasSubstr("another tool holds CUPTI: device activity is not captured\n"));
  EXPECT_TRUE(Collected(File()).CountByName().empty());
}

TEST_F(CuptiTest, SaysOneLineWithoutALibcupti) {
  const Ran ran = Run("TELLER_CUPTI_LIBRARY=/nowhere/libcupti.so");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, HasSubstr("no libcupti found"));
}

// The script for the day there is a GPU, run on the fakes and, first, without any driver.
TEST_F(CuptiTest, CheckOfARealGpuRunsAndSkipsWithoutOne) {
  const std::string script = std::string(TELLER_SOURCE_DIR) + "/tests/gpu/run.sh ";
  const std::filesystem::path packed = folder_ / "gpu-check";  // as 'run.sh pack' fills it
  std::filesystem::create_directories(packed / "bin");
  std::filesystem::create_symlink(std::string(TELLER_BINARY_DIR) + "/bin/teller",
                                  packed / "bin" / "teller");
  std::filesystem::create_symlink(kTests + "cuda_program", packed / "bin" / "cuda_program");
  const Ran skipped = RunShell(script + "check " + packed.string());
  if (skipped.exit_code == 0) GTEST_SKIP() << "there is a GPU here: the check itself says more";
  EXPECT_EQ(skipped.exit_code, 4);
  EXPECT_THAT(skipped.out, HasSubstr("no CUDA device here: skipped"));
  const Ran checked =
      RunShell("LD_LIBRARY_PATH=" + kFakes + " " + script + "check " + packed.string());
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("all counts are equal"));
}

TEST_F(CuptiTest, IsSilentBelowLevelFullAndWhereNotAskedFor) {
  EXPECT_TRUE(Collect("", "--level ranges").CountByName().empty());
  EXPECT_TRUE(Collect("", "--sources nvtx").CountByName().empty());
}

}  // namespace
}  // namespace teller::testing_support
