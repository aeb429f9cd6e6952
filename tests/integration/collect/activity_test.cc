#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/abi/control_file.h"
#include "src/collect/session.h"
#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

const std::string kProgram = std::string(TELLER_BINARY_DIR) + "/tests/activity_program";

TEST(ActivityTest, LinksDeviceRecordsToTheirCalls) {
  const TemporaryFolder folder;
  const Ran ran = RunShell(CollectLine(folder / "t.h5", "", kProgram + " 10"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(folder / "t.h5");
  EXPECT_THAT(
      collected.CountByName(),
      testing::UnorderedElementsAre(
          testing::Pair("streamLaunch", 10), testing::Pair("streamCopy", 10),
          testing::Pair("streamCollective", 10), testing::Pair("streamSynchronize", 10),
          testing::Pair("linear", 10), testing::Pair("copy", 10), testing::Pair("all_reduce", 10)));
  const auto launches = collected.Named("streamLaunch"), kernels = collected.Named("linear");
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(kernels[i].correlation, launches[i].correlation);
    EXPECT_EQ(kernels[i].layer, trace::Layer::kDevice);
    EXPECT_EQ(launches[i].layer, trace::Layer::kHostApi);
    EXPECT_TRUE(kernels[i].on_device());
    EXPECT_EQ(kernels[i].track, 3u);
    EXPECT_GE(kernels[i].begin_ns, launches[i].begin_ns);
    EXPECT_GE(kernels[i].end_ns - kernels[i].begin_ns, 50'000);
  }
  const trace::Event collective = collected.Named("all_reduce").at(4);
  EXPECT_EQ(collective.layer, trace::Layer::kComm);
  EXPECT_EQ(collective.sequence, 4);
  EXPECT_EQ(collective.bytes, 1024);
  EXPECT_EQ(collected.Text(collective.comm), "tp");
  EXPECT_EQ(collected.Named("streamSynchronize").at(0).kind, trace::Kind::kSyncCall);
}

TEST(ActivityTest, IsSilentBelowLevelFull) {
  const TemporaryFolder folder;
  EXPECT_EQ(RunShell(CollectLine(folder / "t.h5", "--level ranges", kProgram + " 3")).exit_code, 0);
  EXPECT_TRUE(Collected(folder / "t.h5").CountByName().empty());
}

/// A target, the pattern that reaches it, and the record in which its time must lie.
struct DelayCase {
  const char* name;
  TellerTarget target;
  const char* pattern;
  const char* record;
};

class DelayTest : public ::testing::TestWithParam<DelayCase> {};

// docs/protocol.md section 1: each delay stands inside the record of the perturbed call. Hits and
// records are compared on the process's own clock.
TEST_P(DelayTest, LiesInsideTheRecordOfTheCall) {
  constexpr int64_t kDelayNs = 300'000;
  const TemporaryFolder folder;
  const auto session = collect::Session::Start({.output = folder / "t.h5", .perturb = true});
  TellerPerturbation perturbation{};
  perturbation.plan_id = 1;
  perturbation.target = GetParam().target;
  perturbation.delay_ns = kDelayNs;
  perturbation.probability = 1;
  perturbation.rank_mask = UINT64_MAX;
  std::strcpy(perturbation.pattern, GetParam().pattern);
  teller_control_set_perturbation(&session->control(), 0, &perturbation);
  std::string line;
  for (const auto& [name, value] : session->Environment()) line += name + "='" + value + "' ";
  ASSERT_EQ(RunShell(line + kProgram + " 5").exit_code, 0);
  std::vector<TellerHit> hits;
  for (const auto& entry : std::filesystem::directory_iterator(session->run_dir())) {
    if (entry.path().extension() != ".hits") continue;
    TellerHitRing* ring = nullptr;
    ASSERT_EQ(teller_hits_map(entry.path().c_str(), &ring), 0);
    TellerHit hit;
    while (teller_hits_take(ring, &hit) == 1) hits.push_back(hit);
    teller_hits_unmap(ring);
  }
  session->Finish();
  const Collected collected(folder / "t.h5");
  const auto records = collected.Named(GetParam().record);
  ASSERT_EQ(records.size(), 5u);
  ASSERT_EQ(hits.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GE(hits[i].end_ns - hits[i].begin_ns, kDelayNs);
    // The two clocks agree within the calibration's error.
    EXPECT_GE(hits[i].begin_ns, records[i].begin_ns - 5'000);
    EXPECT_LE(hits[i].end_ns, records[i].end_ns + 5'000);
    EXPECT_EQ(hits[i].correlation, records[i].correlation);
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, DelayTest,
    ::testing::Values(DelayCase{"Launch", TELLER_TARGET_LAUNCH, "linear", "streamLaunch"},
                      DelayCase{"Copy", TELLER_TARGET_COPY, "streamCopy", "streamCopy"},
                      DelayCase{"Sync", TELLER_TARGET_SYNC, "stream*", "streamSynchronize"},
                      DelayCase{"Kernel", TELLER_TARGET_KERNEL, "lin*", "linear"},
                      DelayCase{"Collective", TELLER_TARGET_COLLECTIVE, "all_reduce",
                                "all_reduce"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace teller::testing_support
