#include "src/cluster/restore.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "src/cluster/cluster.h"
#include "src/cluster/journal.h"
#include "src/cluster/process_table.h"
#include "src/core/random.h"
#include "tests/integration/cluster/machine_state.h"

namespace teller::cluster {
namespace {

using ::testing::IsEmpty;

/// Starts the victim; a line from its stdout can be waited for.
class Victim {
 public:
  Victim(const std::string& run_id, const std::string& mode) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      const std::string program = std::string(TELLER_BINARY_DIR) + "/tests/cluster_victim";
      execl(program.c_str(), program.c_str(), run_id.c_str(), mode.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    out_ = out[0];
  }
  ~Victim() {
    Kill();
    close(out_);
  }

  /// Until the victim has said `word`, ended, or `milliseconds` have gone by.
  bool WaitFor(const std::string& word, int milliseconds) {
    for (int waited = 0; waited < milliseconds; waited += 10) {
      pollfd ready{.fd = out_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 10) <= 0) continue;
      char bytes[256];
      const ssize_t count = read(out_, bytes, sizeof bytes);
      if (count <= 0) return false;
      said_.append(bytes, static_cast<std::size_t>(count));
      if (said_.find(word) != std::string::npos) return true;
    }
    return false;
  }

  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
  std::string said_;
};

using Named = std::pair<pid_t, uint64_t>;

std::vector<Named> WithStartTimes(const std::vector<pid_t>& pids) {
  std::vector<Named> named;
  for (const pid_t pid : pids) {
    if (const auto stat = ReadProcessStat(pid)) named.emplace_back(pid, stat->start_ticks);
  }
  return named;
}

class RestoreTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      const Mode mode = std::string(GetParam()) == "loopback" ? Mode::kLoopback : Mode::kNamespaces;
      Cluster::Create({.run_id = "test-probe-" + std::to_string(getpid()),
                       .nodes = {{.name = "node0"}},
                       .mode = mode});
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// A test that failed half-way leaves the machine clean all the same.
  void TearDown() override { RestoreLeftovers(/*dry_run=*/false); }

  void ExpectClean(const std::string& run_id, const std::vector<Named>& processes) {
    for (const auto& failure : RestoreLeftovers(/*dry_run=*/false)) {
      EXPECT_FALSE(failure.failed)
          << failure.change << ' ' << failure.what << ' ' << failure.outcome;
    }
    // Killed holders' children are reaped by whoever adopted them: give that a moment.
    for (const auto& [pid, start] : processes) {
      for (int i = 0; i < 300 && IsAlive(pid, start); ++i) usleep(10'000);
      EXPECT_FALSE(IsAlive(pid, start)) << pid;
    }
    EXPECT_THAT(testing_support::TracesOf(run_id, InterfaceName(run_id, "")), IsEmpty());
    EXPECT_THAT(RestoreLeftovers(/*dry_run=*/true), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(state_.path() / "journal"));
  }

  testing_support::StateFolderGuard state_;
};

TEST_P(RestoreTest, KilledRunnerAtRandomMomentsLeavesNothing) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::string run_id =
        "test-kill-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    Victim victim(run_id, GetParam());
    // Odd attempts are killed at a random moment while setting up, even ones shortly after they are
    // ready.
    if (attempt % 2 == 0) {
      ASSERT_TRUE(victim.WaitFor("ready", 30'000));
    }
    usleep(static_cast<useconds_t>(random.UniformInt(0, attempt % 2 == 0 ? 50'000 : 150'000)));
    const std::vector<Named> processes = WithStartTimes(Descendants(victim.pid()));
    victim.Kill();
    ExpectClean(run_id, processes);
  }
}

TEST_P(RestoreTest, HoldersKilledTogetherWithTheRunnerAreNoWorse) {
  const std::string run_id = "test-all-" + std::to_string(getpid());
  Victim victim(run_id, GetParam());
  ASSERT_TRUE(victim.WaitFor("ready", 30'000));
  const std::vector<pid_t> all = Descendants(victim.pid());
  const std::vector<Named> processes = WithStartTimes(all);
  // The hub and both holders, as somebody who kills by name would.
  for (const pid_t pid : all) {
    const auto stat = ReadProcessStat(pid);
    if (stat && (stat->comm == "teller-hub" || stat->comm == "teller-node")) kill(pid, SIGKILL);
  }
  victim.Kill();
  if (std::string(GetParam()) == "loopback") {
    // A session of its own below a killed holder cannot be told from a stranger's process without
    // namespaces.
    for (const auto& [pid, start] : processes) {
      if (IsAlive(pid, start)) kill(pid, SIGKILL);
    }
  }
  ExpectClean(run_id, processes);
}

TEST_P(RestoreTest, DryRunChangesNothingAndLiveRunnersAreLeftAlone) {
  const std::string run_id = "test-dry-" + std::to_string(getpid());
  Victim victim(run_id, GetParam());
  ASSERT_TRUE(victim.WaitFor("ready", 30'000));
  EXPECT_THAT(RestoreLeftovers(/*dry_run=*/false), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists("/dev/shm/teller-" + run_id));
  const std::vector<Named> processes = WithStartTimes(Descendants(victim.pid()));
  victim.Kill();
  const auto planned = RestoreLeftovers(/*dry_run=*/true);
  ASSERT_FALSE(planned.empty());
  EXPECT_EQ(planned.back().outcome, "would be undone");
  EXPECT_TRUE(std::filesystem::exists("/dev/shm/teller-" + run_id));
  ExpectClean(run_id, processes);
}

INSTANTIATE_TEST_SUITE_P(Modes, RestoreTest, ::testing::Values("namespaces", "loopback"),
                         [](const auto& info) { return std::string(info.param); });

TEST(RestoreJournalTest, JournalThatNeverGotItsNameGoesWithItsOwner) {
  testing_support::StateFolderGuard state;
  const std::filesystem::path folder = state.path() / "journal";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / ".a-run.99999999.partial") << "{";
  const std::string living = ".b-run." + std::to_string(getpid()) + ".partial";
  std::ofstream(folder / living) << "{";
  EXPECT_THAT(RestoreLeftovers(/*dry_run=*/false), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / ".a-run.99999999.partial"));
  EXPECT_TRUE(std::filesystem::exists(folder / living));
}

TEST(RestoreJournalTest, ForeignPathsAndPidsAreNeverTouched) {
  testing_support::StateFolderGuard state;
  std::filesystem::create_directories(state.path() / "journal");
  const std::filesystem::path precious = state.path() / "teller-precious";
  std::filesystem::create_directories(precious);
  // An owner that cannot live (start time 1), and entries that name things which are not its own.
  std::ofstream(state.path() / "journal" / "evil.1.jsonl")
      << R"({"schema_version":"1.0","run_id":"evil","owner":1,"start_ticks":999999999999,"boot_id":"x"})"
      << '\n'
      << R"({"change":"folder","what":")" << precious.string() << "\",\"start_ticks\":0}\n"
      << R"({"change":"folder","what":"/dev/shm/../tmp/teller-x","start_ticks":0})" << '\n'
      << R"({"change":"process","what":")" << getpid() << "\",\"start_ticks\":1}\n"
      << R"({"change":"cgroup","what":"/sys/fs/cgroup/cpu","start_ticks":0})" << '\n'
      << R"({"change":"folder","what":)";  // torn: never made
  EXPECT_THAT(RestoreLeftovers(/*dry_run=*/false), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(precious));
}

}  // namespace
}  // namespace teller::cluster
