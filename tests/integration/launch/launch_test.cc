#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "src/cluster/process_table.h"
#include "src/core/error.h"
#include "src/workload/launch/log_tail.h"
#include "src/workload/launch/workload.h"

namespace teller::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/teller-test-launch-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    cluster_ = cluster::Cluster::Create({.run_id = "test-launch-" + std::to_string(getpid()),
                                         .nodes = {{.name = "node0"}, {.name = "node1"}}});
  }
  void TearDown() override {
    cluster_.reset();
    unsetenv("TELLER_STATE_DIR");
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Workload> Read(const std::string& yaml) const {
    return Workload::Read(config::Node::Parse(yaml, "workload.yaml"));
  }
  StartOptions Options() const {
    return {.environment = {{"GIVEN", "by-us"}}, .log_folder = folder_};
  }
  std::string Log(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
  std::unique_ptr<cluster::Cluster> cluster_;
};

TEST_F(LaunchTest, CommandRunsOnePerNodeWithTheVariablesOfTorchsLauncher) {
  const auto workload = Read(
      "kind: command\nranks: 2\nready: listening\n"
      "argv: [sh, -c, 'echo $RANK/$WORLD_SIZE $MASTER_ADDR $TELLER_NODE $GIVEN $OWN; echo "
      "listening; exec sleep 1000']\n"
      "environment: {OWN: '5'}\nsteps: {range: 'step*'}\n");
  EXPECT_EQ(workload->nodes(), 2);
  EXPECT_EQ(workload->steps().range, "step*");
  workload->Start(*cluster_, Options());
  workload->WaitReady(20 * kSecond);
  const std::string master = cluster_->node(0).address();
  EXPECT_EQ(Log("node0.stdout.log"), "0/2 " + master + " node0 by-us 5\nlistening\n");
  const auto ranks = workload->RankProcesses();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].node, "node1");
  EXPECT_TRUE(cluster::IsAlive(ranks[1].pid, ranks[1].start_ticks));
  EXPECT_EQ(workload->Failure(), std::nullopt);
  workload->Stop(kSecond);
  EXPECT_FALSE(cluster::IsAlive(ranks[0].pid, ranks[0].start_ticks));
  EXPECT_FALSE(cluster::IsAlive(ranks[1].pid, ranks[1].start_ticks));
}

TEST_F(LaunchTest, RankThatDiesWhileLoadingIsOneLineWithItsLastWords) {
  const auto workload = Read(
      "kind: command\nranks: 2\nready: never\n"
      "argv: [sh, -c, 'test $RANK = 1 || exec sleep 1000; echo cannot open the weights >&2; exit "
      "3']\n");
  workload->Start(*cluster_, Options());
  try {
    workload->WaitReady(20 * kSecond);
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 on node1"), HasSubstr("exit code 3"),
                                    HasSubstr("cannot open the weights")));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST_F(LaunchTest, WaitingIsBounded) {
  const auto workload = Read("kind: command\nready: never\nargv: [sleep, '1000']\n");
  workload->Start(*cluster_, Options());
  EXPECT_THROW(workload->WaitReady(kSecond / 5), DeviceError);
}

TEST_F(LaunchTest, CommandThatEndsWellIsNoFailure) {
  const auto workload = Read("kind: command\nargv: ['true']\n");
  workload->Start(*cluster_, Options());
  workload->WaitReady(kSecond);
  EXPECT_EQ(workload->WaitEnd(20 * kSecond)->ShellCode(), 0);
  EXPECT_EQ(workload->Failure(), std::nullopt);
}

TEST_F(LaunchTest, MistypedKeysAreRefusedWithTheirPlace) {
  try {
    Read("kind: command\nargv: [x]\nrank: 2\n");
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("workload.yaml:3:1"), HasSubstr("ranks")));
  }
  EXPECT_THROW(Read("kind: commando\n"), ConfigError);
  EXPECT_THROW(Read("kind: command\n"), ConfigError);
}

TEST_F(LaunchTest, ReferenceServiceAnswersOnItsNode) {
  const auto workload = Workload::Read(
      config::Node::Load(std::string(TELLER_SOURCE_DIR) + "/configs/workload/reference.yaml"));
  try {
    workload->CheckAvailable();
  } catch (const UnavailableError& error) {
    GTEST_SKIP() << error.what();
  }
  workload->Start(*cluster_, Options());
  workload->WaitReady(60 * kSecond);
  const std::string url = workload->endpoint()->url + "/health";
  const std::string script = "import urllib.request as u;print(u.urlopen('" + url + "').status)";
  const auto probe =
      cluster_->node(workload->endpoint()->node)
          .Spawn({.argv = {"python3", "-c", script}, .stdout_file = folder_ / "probe"});
  ASSERT_EQ(probe->Wait(30 * kSecond)->ShellCode(), 0);
  EXPECT_EQ(Log("probe"), "200\n");
  EXPECT_EQ(workload->RankProcesses().size(), 2u);
  workload->Stop(10 * kSecond);
}

TEST(LogTailTest, FindsTextThatWasTornBetweenReadsAndTheLastLineWithText) {
  const std::filesystem::path log = "/tmp/teller-test-log-" + std::to_string(getpid());
  LogWatch watch(log, "startup complete");
  EXPECT_FALSE(watch.Seen());
  std::ofstream file(log);
  file << "loading\nstartup comp" << std::flush;
  EXPECT_FALSE(watch.Seen());
  file << "lete.\n\n  \n" << std::flush;
  EXPECT_TRUE(watch.Seen());
  EXPECT_EQ(LastLine(log), "startup complete.");
  EXPECT_EQ(LastLine("/no/such/log"), "");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace teller::launch
