#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/abi/control_file.h"
#include "src/collect/session.h"
#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

/// scripts/check_torch_versions.sh runs these tests with other Pythons.
std::string Python() {
  const char* other = std::getenv("TELLER_TEST_PYTHON");
  return other == nullptr ? TELLER_PYTHON : other;
}
const std::string kPython = Python();
const std::string kScript =
    std::string(TELLER_SOURCE_DIR) + "/tests/integration/collect/torch_program.py";

const std::string kLateProgram = std::string(TELLER_BINARY_DIR) + "/tests/torch_late_program";

class TorchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(kPython.c_str(), X_OK) != 0) GTEST_SKIP() << "no Python with torch at " << kPython;
    setenv("OMP_NUM_THREADS", "1", 1);
  }
  Collected Collect(const std::string& arguments, const std::string& options = "") {
    const Ran ran = RunShell(
        CollectLine(File(), "--force " + options, kPython + " " + kScript + " " + arguments));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(ran.out, "done\n");
    return Collected(File());
  }
  std::filesystem::path File() const { return folder_ / "t.h5"; }

  TemporaryFolder folder_;
};

TEST_F(TorchTest, RecordsOperatorsInsideTheirScope) {
  const Collected collected = Collect("operators");
  const auto operators = collected.Named("aten::mm"), scopes = collected.Named("test scope");
  ASSERT_EQ(operators.size(), 50u);
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(scopes[0].layer, trace::Layer::kEngine);
  for (const trace::Event& event : operators) {
    EXPECT_EQ(event.layer, trace::Layer::kBackend);
    EXPECT_GE(event.begin_ns, scopes[0].begin_ns);
    EXPECT_LE(event.end_ns, scopes[0].end_ns);
  }
}

TEST_F(TorchTest, KeepsShapesOfInputsWhereAsked) {
  const Collected collected = Collect("operators", "--shapes");
  const auto operators = collected.Named("aten::mm");
  ASSERT_EQ(operators.size(), 50u);
  EXPECT_EQ(collected.Text(operators[0].request), "[8,8] [8,8]");
  EXPECT_EQ(Collect("operators").Named("aten::mm").at(0).request, kNoString);
}

// A driver and libcupti of the tests' own: each launch carries the number of the operator that made
// it.
TEST_F(TorchTest, TiesLaunchesToTheirOperators) {
  const std::string fakes = std::string(TELLER_BINARY_DIR) + "/tests/fake_cuda";
  const Ran ran =
      RunShell(CollectLine(File(), "",
                           "env LD_LIBRARY_PATH=" + fakes + " TELLER_CUPTI_LIBRARY=" + fakes +
                               "/libcuda.so.1 " + kPython + " " + kScript + " cuda"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  const auto operators = collected.Named("test::launch");
  const auto launches = collected.Named("cuLaunchKernel");
  ASSERT_EQ(operators.size(), 5u);
  ASSERT_EQ(launches.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GE(operators[i].sequence, 0);
    EXPECT_EQ(launches[i].sequence, operators[i].sequence);
    EXPECT_EQ(launches[i].track, operators[i].track);
  }
}

TEST_F(TorchTest, RecordsScopesAloneAtLevelRanges) {
  const Collected collected = Collect("operators", "--level ranges");
  EXPECT_EQ(collected.Named("test scope").size(), 1u);
  EXPECT_TRUE(collected.Named("aten::mm").empty());
}

TEST_F(TorchTest, RecordsEveryThread) {
  const Collected collected = Collect("threads");
  EXPECT_EQ(collected.Named("aten::mm").size(), 200u);
  EXPECT_EQ(collected.Named("test scope").size(), 4u);
}

TEST_F(TorchTest, MakesCollectivesCommEventsAndFollowsRecordsAcrossThreads) {
  const Collected collected = Collect("gloo " + (folder_ / "store").string(), "--level ranges");
  const auto collectives = collected.Named("gloo:all_reduce");
  ASSERT_EQ(collectives.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(collectives[i].layer, trace::Layer::kComm);
    EXPECT_EQ(collectives[i].kind, trace::Kind::kCollective);
    EXPECT_EQ(collectives[i].sequence, static_cast<int32_t>(i));
    EXPECT_EQ(collectives[i].bytes, 1024);
    EXPECT_EQ(collected.Text(collectives[i].comm), "gloo");
  }
  const trace::Event across = collected.Named("ends elsewhere").at(0);
  EXPECT_NE(across.flags & trace::kFlagOtherThreadEnd, 0);
  EXPECT_EQ(across.track, collected.reader.processes().at(0).pid);  // where it began
  EXPECT_EQ(collected.Named("gloo:broadcast").at(0).bytes, 64);
  EXPECT_EQ(collected.Named("gloo:all_gather").at(0).bytes, 40);
}

TEST_F(TorchTest, RecordsWhatAutogradRuns) {
  const Collected collected = Collect("autograd");
  const auto backward = collected.Named("MmBackward0");
  ASSERT_EQ(backward.size(), 3u);
  EXPECT_EQ(backward[0].layer, trace::Layer::kBackend);
  EXPECT_EQ(collected.Named("autograd::engine::evaluate_function: MmBackward0").size(), 3u);
}

TEST_F(TorchTest, FindsATorchThatACppProgramOpensLate) {
  const Ran ran = RunShell("LD_LIBRARY_PATH=" TELLER_TORCH_LIBRARIES " " +
                           CollectLine(File(), "", kLateProgram + " libtorch_cpu.so 20"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  EXPECT_EQ(collected.Named("aten::mm").size(), 20u);
  EXPECT_EQ(collected.Stat("attached_torch"), 1);
}

TEST_F(TorchTest, LeavesATorchOfUnknownVersionAloneWithOneLine) {
  const std::filesystem::path lib = folder_ / "torch" / "lib";
  std::filesystem::create_directories(lib);
  std::filesystem::copy_file(std::string(TELLER_BINARY_DIR) + "/tests/libuser_tool.so",
                             lib / "libtorch_cpu.so");
  std::ofstream(folder_ / "torch" / "version.py") << "__version__ = '2.99.1'\n";
  const Ran ran = RunShell("LD_LIBRARY_PATH=" + lib.string() + " " +
                           CollectLine(File(), "", kLateProgram + " libtorch_cpu.so"));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err,
              testing::HasSubstr(
                  "torch 2.99 is not one of 2.11 to 2.15: its operators are not captured\n"));
}

struct TorchDelayCase {
  TellerTarget target;
  const char* pattern;
  const char* record;
  const char* arguments;
  std::size_t count;
};

// As DelayTest in activity_test.cc; here the delay must lie inside whatever order torch runs
// callbacks in.
TEST_F(TorchTest, DelaysLieInsideTheRecords) {
  for (const TorchDelayCase& test :
       {TorchDelayCase{TELLER_TARGET_OPERATOR, "aten::mm", "aten::mm", "operators", 50},
        TorchDelayCase{TELLER_TARGET_COLLECTIVE, "all_reduce", "gloo:all_reduce", "gloo", 5},
        TorchDelayCase{TELLER_TARGET_RANGE, "test scope", "test scope", "operators", 1}}) {
    constexpr int64_t kDelayNs = 300'000;
    const auto session =
        collect::Session::Start({.output = File(), .force = true, .perturb = true});
    TellerPerturbation perturbation{};
    perturbation.target = test.target;
    perturbation.delay_ns = kDelayNs;
    perturbation.probability = 1;
    perturbation.rank_mask = UINT64_MAX;
    std::strcpy(perturbation.pattern, test.pattern);
    teller_control_set_perturbation(&session->control(), 0, &perturbation);
    std::string line;
    for (const auto& [name, value] : session->Environment()) line += name + "='" + value + "' ";
    std::filesystem::remove(folder_ / "store");
    ASSERT_EQ(RunShell(line + kPython + " " + kScript + " " + test.arguments + " " +
                       (folder_ / "store").string())
                  .exit_code,
              0);
    uint64_t hits = 0;
    for (const auto& entry : std::filesystem::directory_iterator(session->run_dir())) {
      TellerHitRing* ring = nullptr;
      if (entry.path().extension() != ".hits" || teller_hits_map(entry.path().c_str(), &ring) != 0)
        continue;
      hits += ring->head;
      teller_hits_unmap(ring);
    }
    session->Finish();
    const auto records = Collected(File()).Named(test.record);
    EXPECT_EQ(hits, test.count) << test.pattern;
    ASSERT_EQ(records.size(), test.count);
    for (const trace::Event& record : records)
      EXPECT_GE(record.end_ns - record.begin_ns, kDelayNs - 1000) << test.pattern;
  }
}

}  // namespace
}  // namespace teller::testing_support
