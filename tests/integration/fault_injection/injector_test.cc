#include "fault_injection/injector.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "fault_injection/fault_kind.h"
#include "src/abi/control_file.h"
#include "src/cluster/cluster.h"
#include "src/cluster/process_table.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "tests/integration/fault_injection/truth_lines.h"

namespace teller::fault_injection {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr int64_t kMs = 1'000'000;

/// Two ranks of the stand-in target on loopback nodes, a control block, an injector.
class InjectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/teller-test-inject-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    cluster_ = cluster::Cluster::Create({.run_id = "test-inject-" + std::to_string(getpid()),
                                         .nodes = {{.name = "node0"}, {.name = "node1"}},
                                         .mode = cluster::Mode::kLoopback});
    ASSERT_EQ(teller_control_create(cluster_->run_dir().c_str(), &control_), 0);
    teller_control_set_perturb(control_, 1);
    for (int rank = 0; rank < 2; ++rank) StartRank(rank);
  }

  void TearDown() override {
    teller_control_unmap(control_);
    processes_.clear();
    cluster_.reset();
    unsetenv("TELLER_STATE_DIR");
    std::filesystem::remove_all(folder_);
  }

  void StartRank(int rank) {
    cluster::Node& node = cluster_->node(static_cast<std::size_t>(rank));
    const auto log = folder_ / ("out" + std::to_string(rank));
    processes_.push_back(
        node.Spawn({.argv = {std::string(TELLER_BINARY_DIR) + "/tests/fault_target", Gaps(rank)},
                    .environment = {{"RANK", std::to_string(rank)},
                                    {"TELLER_RUN_DIR", cluster_->run_dir().string()}},
                    .stdout_file = log}));
    for (int i = 0; i < 1000 && std::filesystem::file_size(log) == 0; ++i) usleep(10'000);
    ranks_.push_back({.rank = RankId{rank},
                      .node = node.name(),
                      .pid = processes_.back()->pid(),
                      .start_ticks = processes_.back()->start_ticks()});
  }

  std::string Gaps(int rank) const { return (folder_ / ("gaps" + std::to_string(rank))).string(); }
  std::filesystem::path Truth() const { return folder_ / "truth.jsonl"; }

  /// What a rank saw of its own clock standing still.
  std::vector<std::pair<int64_t, int64_t>> SeenGaps(int rank) const {
    std::vector<std::pair<int64_t, int64_t>> gaps;
    std::ifstream file(Gaps(rank));
    for (int64_t begin_ns, end_ns; file >> begin_ns >> end_ns;) gaps.emplace_back(begin_ns, end_ns);
    return gaps;
  }

  Injector MakeInjector(Plan plan) {
    return Injector(std::move(plan), ranks_,
                    {.run_id = cluster_->run_id(),
                     .truth_path = Truth(),
                     .run_dir = cluster_->run_dir(),
                     .control = control_,
                     .journal = &cluster_->journal()});
  }

  static PlannedFault Delay(uint32_t id, int64_t begin_ms, double delay_us, bool placebo = false) {
    return {.plan_id = id,
            .stretch = static_cast<int32_t>(id),
            .kind = "collective_delay",
            .placebo = placebo,
            .level = 3,
            .magnitude = {{"delay_ns", delay_us * 1000}},
            .target = {.rank = RankId{1},
                       .layer = "comm",
                       .symbol = "all_*",
                       .culprit_symbol = "all_reduce"},
            .begin_ns = begin_ms * kMs,
            .length_ns = 150 * kMs};
  }

  static PlannedFault Pause(uint32_t id, int64_t begin_ms, double pulse_ms, bool placebo = false) {
    return {.plan_id = id,
            .stretch = static_cast<int32_t>(id),
            .kind = "process_pause",
            .placebo = placebo,
            .level = 5,
            .magnitude = {{"pulse_ns", pulse_ms * 1e6}, {"gap_low_ms", 20}, {"gap_high_ms", 40}},
            .target = {.rank = RankId{0}},
            .begin_ns = begin_ms * kMs,
            .length_ns = 400 * kMs};
  }

  static Plan MakePlan(std::vector<PlannedFault> faults, int64_t duration_ms) {
    return {.seed = 5,
            .run = 0,
            .calibration_ns = 50 * kMs,
            .duration_ns = duration_ms * kMs,
            .faults = std::move(faults)};
  }

  std::filesystem::path folder_;
  std::unique_ptr<cluster::Cluster> cluster_;
  TellerControl* control_ = nullptr;
  std::vector<std::unique_ptr<cluster::Process>> processes_;
  std::vector<cluster::RankProcess> ranks_;
};

TEST_F(InjectorTest, DelaysBecomeActionsOfTheRightRankInsideTheirStretch) {
  const auto summary =
      MakeInjector(MakePlan({Delay(0, 100, 300), Delay(1, 300, 300, /*placebo=*/true)}, 500)).Run();
  EXPECT_TRUE(summary.completed);
  EXPECT_EQ(summary.stretches, 2);
  EXPECT_EQ(summary.placebos, 1);
  EXPECT_EQ(summary.ineffective, 0);
  EXPECT_EQ(summary.lost, 0);
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  const int64_t begin_ns = testing_support::OfType(truth, "stretch_begin")[0].at("time_ns");
  const auto actions = testing_support::OfType(truth, "action");
  ASSERT_GE(actions.size(), 5u);
  for (const auto& action : actions) {
    EXPECT_EQ(action.at("plan_id"), 0);  // a placebo's hits are counted, never actions
    EXPECT_EQ(action.at("rank"), 1);
    EXPECT_EQ(action.at("node"), "node1");
    EXPECT_EQ(action.at("where"), "inside");
    EXPECT_GE(action.at("end_ns").get<int64_t>() - action.at("begin_ns").get<int64_t>(), 300'000);
    EXPECT_GE(action.at("begin_ns").get<int64_t>(), begin_ns);
  }
  for (const auto& measure : testing_support::OfType(truth, "measure")) {
    if (measure.at("name") != "hits") continue;
    EXPECT_GT(measure.at("value"), 0) << measure;
  }
}

TEST_F(InjectorTest, PausesAreSeenFromInsideTheTarget) {
  const auto summary =
      MakeInjector(MakePlan({Pause(0, 100, 8), Pause(1, 600, 8, /*placebo=*/true)}, 1100)).Run();
  EXPECT_EQ(summary.ineffective, 0);
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  const auto actions = testing_support::OfType(truth, "action");
  ASSERT_GE(actions.size(), 3u);
  const auto gaps = SeenGaps(0);
  for (const auto& action : actions) {
    const int64_t begin_ns = action.at("begin_ns"), end_ns = action.at("end_ns");
    EXPECT_EQ(action.at("plan_id"), 0);
    EXPECT_GE(end_ns - begin_ns, 8 * kMs);
    // The whole recorded time lies in one gap that the target saw, give or take the way of a
    // signal.
    const bool seen = std::any_of(gaps.begin(), gaps.end(), [&](const auto& gap) {
      return gap.first <= begin_ns + kMs && gap.second >= end_ns;
    });
    EXPECT_TRUE(seen) << begin_ns << ' ' << end_ns;
  }
  EXPECT_NE(cluster::ReadProcessStat(ranks_[0].pid)->state, 'T');
}

/// Share of the recorded time that lies in gaps which the target saw.
double SeenShare(const std::vector<nlohmann::json>& actions,
                 const std::vector<std::pair<int64_t, int64_t>>& gaps) {
  double recorded = 0, seen = 0;
  for (const auto& action : actions) {
    const int64_t begin_ns = action.at("begin_ns"), end_ns = action.at("end_ns");
    recorded += static_cast<double>(end_ns - begin_ns);
    for (const auto& [from, to] : gaps) {
      seen += static_cast<double>(
          std::max<int64_t>(0, std::min(to, end_ns) - std::max(from, begin_ns)));
    }
  }
  return recorded > 0 ? seen / recorded : 0;
}

std::set<std::string> OwnCgroups() {
  std::set<std::string> found;
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
      const std::string name = entry.path().filename().string();
      if (name.find("teller-test-inject-" + std::to_string(getpid())) == 0) found.insert(name);
    }
  }
  return found;
}

std::string CgroupsOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(InjectorTest, QuotaThrottlesTheTargetAndTheCgroupGoes) {
  if (const auto why = FindKind("cpu_quota")->why_unavailable(); !why.empty()) GTEST_SKIP() << why;
  const std::string before = CgroupsOf(ranks_[0].pid);
  PlannedFault quota = Pause(0, 700, 1);
  quota.kind = "cpu_quota";
  quota.magnitude = {{"cpu_share", 0.3}, {"period_ms", 20}};
  quota.length_ns = 800 * kMs;
  PlannedFault placebo = quota;
  placebo.plan_id = 1;
  placebo.begin_ns = 1600 * kMs;
  placebo.placebo = true;
  Plan plan = MakePlan({quota, placebo}, 2500);
  plan.calibration_ns = 600 * kMs;
  const auto summary = MakeInjector(plan).Run();
  EXPECT_EQ(summary.ineffective, 0);
  EXPECT_EQ(CgroupsOf(ranks_[0].pid), before);
  EXPECT_TRUE(OwnCgroups().empty());
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  const auto actions = testing_support::OfType(truth, "action");
  for (const auto& action : actions) {
    EXPECT_EQ(action.at("plan_id"), 0);
    EXPECT_EQ(action.at("what"), "throttled");
  }
  // The clock watcher spins, so most of what the kernel calls throttled is a gap that it saw.
  EXPECT_GT(SeenShare(actions, SeenGaps(0)), 0.5);
}

TEST_F(InjectorTest, HogMakesTheTargetWait) {
  PlannedFault hog = Pause(0, 100, 1);
  hog.kind = "cpu_hog";
  hog.magnitude = {{"burst_ns", 8e6}, {"gap_low_ms", 4}, {"gap_high_ms", 10}};
  hog.length_ns = 800 * kMs;
  const auto summary = MakeInjector(MakePlan({hog}, 1000)).Run();
  EXPECT_EQ(summary.ineffective, 0);
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  for (const auto& action : testing_support::OfType(truth, "action"))
    EXPECT_EQ(action.at("what"), "wait");
}

TEST_F(InjectorTest, DelaysGrowWhileTheyRamp) {
  PlannedFault delay = Delay(0, 100, 4000);
  delay.length_ns = 800 * kMs;
  delay.ramp_ns = 600 * kMs;
  MakeInjector(MakePlan({delay}, 1000)).Run();
  const auto truth = testing_support::ReadTruth(Truth());
  const int64_t begin_ns = testing_support::OfType(truth, "stretch_begin")[0].at("time_ns");
  int64_t early_most_ns = 0, late_most_ns = 0;
  for (const auto& action : testing_support::OfType(truth, "action")) {
    const int64_t at_ns = action.at("begin_ns").get<int64_t>() - begin_ns;
    const int64_t took_ns =
        action.at("end_ns").get<int64_t>() - action.at("begin_ns").get<int64_t>();
    if (at_ns > 600 * kMs) late_most_ns = std::max(late_most_ns, took_ns);
    if (early_most_ns == 0) early_most_ns = took_ns;
  }
  EXPECT_GE(late_most_ns, 4 * kMs);
  EXPECT_LT(early_most_ns, 4 * kMs);
}

TEST_F(InjectorTest, MemoryPressureIsMeasuredByTheStretch) {
  PlannedFault pressure = Pause(0, 100, 1);
  pressure.kind = "memory_pressure";
  pressure.magnitude = {{"burst_ns", 5e6}, {"gap_low_ms", 1}, {"gap_high_ms", 2}};
  PlannedFault placebo = pressure;
  placebo.plan_id = 1;
  placebo.begin_ns = 600 * kMs;
  placebo.placebo = true;
  const auto summary = MakeInjector(MakePlan({pressure, placebo}, 1100)).Run();
  EXPECT_EQ(summary.actions, 0);
  std::map<std::string, double> measured;
  for (const auto& measure :
       testing_support::OfType(testing_support::ReadTruth(Truth()), "measure")) {
    measured[measure.at("name").get<std::string>() +
             std::to_string(measure.at("plan_id").get<int>())] = measure.at("value");
  }
  // It runs only where nobody else wants to: two watchers of the clock spin here.
  EXPECT_EQ(measured.at("acted0") > 0, measured.at("bytes_moved0") > 0);
  EXPECT_EQ(summary.ineffective, measured.at("bytes_moved0") > 0 ? 0 : 1);
  EXPECT_EQ(measured.at("bytes_moved1"), 0);
  EXPECT_EQ(measured.at("acted1"), 0);
}

TEST_F(InjectorTest, OverlapOnOneResourceIsRefusedOthersRunTogether) {
  PlannedFault pause = Pause(0, 60, 5), again = Pause(1, 100, 5);
  EXPECT_THROW(MakeInjector(MakePlan({pause, again}, 600)), ConfigError);
  again.target.rank = RankId{1};
  PlannedFault delay = Delay(2, 100, 300);
  const auto summary = MakeInjector(MakePlan({pause, again, delay}, 600)).Run();
  EXPECT_EQ(summary.ineffective, 0);
  EXPECT_EQ(summary.stretches, 3);
}

TEST_F(InjectorTest, StopUndoesAtOnceAndTheTruthIsWhole) {
  auto injector = MakeInjector(MakePlan({Delay(0, 60, 100), Pause(1, 60, 5)}, 600'000));
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    injector.Stop();
  });
  const auto summary = injector.Run();
  stopper.join();
  EXPECT_FALSE(summary.completed);
  for (const TellerPerturbation& entry : control_->perturbations) EXPECT_EQ(entry.active, 0u);
  EXPECT_NE(cluster::ReadProcessStat(ranks_[0].pid)->state, 'T');
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  EXPECT_EQ(testing_support::OfType(truth, "stretch_end").size(), 2u);
}

TEST_F(InjectorTest, TargetThatEndsMidFaultIsRecordedAndTheOthersGoOn) {
  Plan plan = MakePlan({Pause(0, 60, 5), Delay(1, 500, 100), Pause(2, 700, 5)}, 1200);
  auto injector = MakeInjector(plan);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    processes_[0]->Signal(SIGKILL);
  });
  const auto summary = injector.Run();
  killer.join();
  EXPECT_TRUE(summary.completed);
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_THAT(summary.notes[0], HasSubstr("rank 0"));
  EXPECT_EQ(summary.stretches, 2);  // the last pause had no target any more
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  EXPECT_EQ(testing_support::OfType(truth, "lost").size(), 1u);
}

TEST_F(InjectorTest, PlanThatCannotBeCarriedOutIsRefused) {
  PlannedFault strange = Delay(0, 60, 100);
  strange.target.rank = RankId{7};
  EXPECT_THROW(MakeInjector(MakePlan({strange}, 200)), ConfigError);
  strange = Delay(0, 60, 100);
  strange.length_ns = -1;
  EXPECT_THROW(MakeInjector(MakePlan({strange}, 200)), ConfigError);
  strange.kind = "earthquake";
  EXPECT_THROW(MakeInjector(MakePlan({strange}, 200)), ConfigError);
  std::ofstream(Truth()) << "already there";
  EXPECT_THROW(MakeInjector(MakePlan({}, 200)), ConfigError);
}

TEST_F(InjectorTest, FullDiskIsOneErrorAndEverythingIsUndone) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  Injector injector(MakePlan({Pause(0, 60, 5)}, 600'000), ranks_,
                    {.run_id = "full",
                     .truth_path = Truth(),
                     .run_dir = cluster_->run_dir(),
                     .control = control_,
                     .journal = &cluster_->journal()});
  // The file is open already; what it is open on is replaced.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error) != Truth()) continue;
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    dup2(full, std::stoi(entry.path().filename().string()));
    close(full);
  }
  EXPECT_THROW(injector.Run(), DeviceError);
  EXPECT_NE(cluster::ReadProcessStat(ranks_[0].pid)->state, 'T');
}

}  // namespace
}  // namespace teller::fault_injection
