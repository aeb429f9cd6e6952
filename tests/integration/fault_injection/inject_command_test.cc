// `teller inject` and `teller restore` as a user runs them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "src/cluster/process_table.h"
#include "src/core/random.h"
#include "tests/integration/fault_injection/truth_lines.h"

namespace teller {
namespace {

constexpr char kPlan[] =
    "calibration_s: 0.1\n"
    "duration_s: 60\n"
    "step_ms: 1\n"
    "stretch_steps: [200, 300]\n"
    "gap_steps: [10, 20]\n"
    "placebo_share: 0\n"
    "faults:\n"
    "  - {kind: process_pause, gap_low_ms: 1, gap_high_ms: 2, level_edges_us: [2000, 3000, 4000, "
    "5000, 6000, 7000]}\n";

class InjectCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/teller-test-command-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    std::ofstream(folder_ / "plan.yaml") << kPlan;
  }
  void TearDown() override {
    if (target_ > 0) {
      kill(target_, SIGKILL);
      waitpid(target_, nullptr, 0);
    }
    unsetenv("TELLER_STATE_DIR");
    std::filesystem::remove_all(folder_);
  }

  pid_t Start(std::vector<std::string> words) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const int out = open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }

  pid_t Teller(std::vector<std::string> words) const {
    words.insert(words.begin(), std::string(TELLER_BINARY_DIR) + "/bin/teller");
    return Start(std::move(words));
  }

  static int ExitCodeOf(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::vector<std::string> Inject(std::vector<std::string> more) const {
    std::vector<std::string> words = {"inject", (folder_ / "plan.yaml").string(), "--output",
                                      Truth().string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::filesystem::path Truth() const { return folder_ / "truth.jsonl"; }

  /// Until the injector has stopped its target at least once.
  void WaitForAction() const {
    for (int i = 0; i < 2000; ++i, usleep(10'000)) {
      std::ifstream file(Truth());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.find("\"action\"") != std::string::npos) return;
    }
    FAIL() << "no action within 20 s";
  }

  std::filesystem::path folder_;
  pid_t target_ = 0;
};

TEST_F(InjectCommandTest, ReturnsTheCommandsOwnCode) {
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--", "sh", "-c", "exit 7"}))), 7);
  testing_support::ExpectTruthSchema(testing_support::ReadTruth(Truth()));
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--force", "--", "sh", "-c", "kill -9 $$"}))), 128 + 9);
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--", "true"}))), 2);  // the truth file exists
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--force", "--", "no-such-program-of-ours"}))), 127);
}

TEST_F(InjectCommandTest, BadTargetsAndPlansAreRefused) {
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--target", "999999999"}))), 2);
  EXPECT_EQ(ExitCodeOf(Teller(Inject({}))), 2);
  std::ofstream(folder_ / "plan.yaml") << "faults: [{kind: earthquake}]\n";
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--", "true"}))), 2);
  EXPECT_FALSE(std::filesystem::exists(Truth()));
}

TEST_F(InjectCommandTest, InterruptUndoesAndEndsTheCommand) {
  const pid_t teller = Teller(Inject({"--", "sleep", "1000"}));
  WaitForAction();
  kill(teller, SIGINT);
  EXPECT_EQ(ExitCodeOf(teller), 128 + SIGINT);
  testing_support::ExpectTruthSchema(testing_support::ReadTruth(Truth()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "journal"));
}

TEST_F(InjectCommandTest, KilledWhileATargetIsStoppedRestoreContinuesIt) {
  target_ = Start({"sleep", "1000"});
  Random random(3);
  bool was_stopped = false;
  for (int attempt = 0; attempt < 20 && !was_stopped; ++attempt) {
    std::filesystem::remove(Truth());
    const pid_t teller = Teller(Inject({"--target", std::to_string(target_)}));
    WaitForAction();
    usleep(static_cast<useconds_t>(random.UniformInt(0, 20'000)));
    kill(teller, SIGKILL);
    waitpid(teller, nullptr, 0);
    was_stopped = cluster::ReadProcessStat(target_)->state == 'T';
    EXPECT_EQ(ExitCodeOf(Teller({"restore", "--dry-run"})), 0);
    EXPECT_EQ(cluster::ReadProcessStat(target_)->state == 'T', was_stopped);
    EXPECT_EQ(ExitCodeOf(Teller({"restore"})), 0);
    EXPECT_NE(cluster::ReadProcessStat(target_)->state, 'T');
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "journal"));
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("teller-inject-")) << entry;
    }
  }
  EXPECT_TRUE(was_stopped) << "no attempt hit a pulse; the test saw nothing";
}

TEST_F(InjectCommandTest, ProcessesOfANodeAreThePlansRanks) {
  // Two processes in a network of their own; with one user namespace this needs no root.
  target_ = Start({"unshare", "-rn", "sh", "-c", "sleep 1000 & exec sleep 1000"});
  std::vector<pid_t> inside;
  for (int i = 0; i < 500 && inside.size() < 1; ++i, usleep(10'000)) {
    const auto stat = cluster::ReadProcessStat(target_);
    if (stat && stat->comm == "sleep") inside = cluster::Descendants(target_);
  }
  if (inside.empty()) GTEST_SKIP() << "unshare -rn is not allowed here";
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--node", std::to_string(getpid())}))), 2);
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--node", "no-such-node"}))), 2);
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--node", "1", "--target", "1"}))), 2);
  EXPECT_FALSE(std::filesystem::exists(Truth()));
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--node", std::to_string(target_), "--set", "duration_s=4",
                                      "--set", "stretch_steps=[100, 120]"}))),
            0);
  std::set<int> ranks;
  for (const auto& action : testing_support::OfType(testing_support::ReadTruth(Truth()), "action"))
    ranks.insert(action.at("rank").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  for (const pid_t pid : inside) kill(pid, SIGKILL);
}

TEST_F(InjectCommandTest, NcclCallsAreDelayedByInterposition) {
  if (!std::filesystem::exists(std::string(TELLER_BINARY_DIR) + "/lib/libteller_agent.so"))
    GTEST_SKIP() << "built without the agent library";
  std::ofstream(folder_ / "plan.yaml")
      << "calibration_s: 0.1\nduration_s: 1.5\nstep_ms: 5\nstretch_steps: [100, 150]\n"
         "gap_steps: [5, 10]\nplacebo_share: 0\nfaults:\n"
         "  - {kind: nccl_delay, level_edges_us: [2000, 3000, 4000, 5000, 6000, 7000],\n"
         "     targets: [{symbol: ncclAllReduce, culprit: all_reduce}]}\n";
  const std::string target = std::string(TELLER_BINARY_DIR) + "/tests/nccl_target";
  EXPECT_EQ(ExitCodeOf(Teller(Inject({"--", target}))), 0);
  const auto truth = testing_support::ReadTruth(Truth());
  testing_support::ExpectTruthSchema(truth);
  const auto actions = testing_support::OfType(truth, "action");
  ASSERT_GE(actions.size(), 3u);
  for (const auto& action : actions) {
    EXPECT_EQ(action.at("what"), "delay");
    EXPECT_GE(action.at("end_ns").get<int64_t>() - action.at("begin_ns").get<int64_t>(), 2'000'000);
  }
}

}  // namespace
}  // namespace teller
