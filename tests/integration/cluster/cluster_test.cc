#include "src/cluster/cluster.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "src/cluster/process_table.h"
#include "src/core/error.h"
#include "tests/integration/cluster/machine_state.h"

namespace teller::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

std::string TestRunId(const std::string& name) {
  return "test-" + name + "-" + std::to_string(getpid());
}

/// Nodes as the machine allows them, two unless said otherwise.
ClusterSpec Spec(const std::string& name, Mode mode = Mode::kAuto) {
  return {.run_id = TestRunId(name), .nodes = {{.name = "node0"}, {.name = "node1"}}, .mode = mode};
}

std::string Output(Node& node, std::vector<std::string> argv, const Cluster& cluster) {
  const auto file = cluster.run_dir() / ("output-" + node.name());
  std::filesystem::remove(file);
  const auto process = node.Spawn({.argv = std::move(argv), .stdout_file = file});
  const auto status = process->Wait(20 * kSecond);
  EXPECT_TRUE(status.has_value());
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class ClusterTest : public ::testing::Test {
 protected:
  testing_support::StateFolderGuard state_;
};

TEST_F(ClusterTest, NodesReachEachOtherAndNothingElse) {
  const auto cluster = Cluster::Create(Spec("reach"));
  if (!cluster->has_namespaces()) GTEST_SKIP() << cluster->limits().front();
  EXPECT_THAT(Output(cluster->node(0), {"ip", "-br", "addr"}, *cluster), HasSubstr("10.77.0.1/32"));
  EXPECT_THAT(Output(cluster->node(1), {"ip", "route", "get", "10.77.0.1"}, *cluster),
              HasSubstr("dev " + cluster->node(1).interface()));
  EXPECT_THAT(Output(cluster->node(1), {"ip", "route", "get", "8.8.8.8"}, *cluster), IsEmpty());
  // A connection really crosses: node 1 answers node 0.
  const auto server = cluster->node(1).Spawn(
      {.argv = {"python3", "-c",
                "import socket\ns=socket.create_server(('10.77.0.2',7001))\nc,a=s.accept()\n"
                "c.sendall(a[0].encode())"}});
  const std::string client =
      "import socket,time\nfor i in range(100):\n  try: "
      "s=socket.create_connection(('10.77.0.2',7001),5);break\n"
      "  except OSError: time.sleep(.1)\nprint(s.recv(99).decode())";
  EXPECT_EQ(Output(cluster->node(0), {"python3", "-c", client}, *cluster), "10.77.0.1\n");
}

TEST_F(ClusterTest, RunFolderIsSharedAndTheRestOfShmIsPrivate) {
  const auto cluster = Cluster::Create(Spec("shm"));
  std::ofstream(cluster->run_dir() / "hello") << "from the host";
  const std::string folder = cluster->run_dir().string();
  EXPECT_EQ(Output(cluster->node(0), {"cat", folder + "/hello"}, *cluster), "from the host");
  if (!cluster->has_namespaces()) GTEST_SKIP() << cluster->limits().front();
  Output(cluster->node(0), {"touch", "/dev/shm/" + cluster->run_id()}, *cluster);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + cluster->run_id()));
  EXPECT_EQ(Output(cluster->node(1), {"ls", "/dev/shm"}, *cluster),
            "teller-" + cluster->run_id() + "\n");
}

TEST_F(ClusterTest, ProcessesKnowTheirNodeAndTellHowTheyEnded) {
  const auto cluster = Cluster::Create(Spec("ends"));
  EXPECT_EQ(Output(cluster->node(1), {"sh", "-c", "echo $TELLER_NODE"}, *cluster), "node1\n");
  const auto failing = cluster->node(0).Spawn({.argv = {"sh", "-c", "exit 7"}});
  EXPECT_EQ(failing->Wait(20 * kSecond)->code, 7);
  const auto killed = cluster->node(0).Spawn({.argv = {"sleep", "1000"}});
  EXPECT_EQ(killed->Poll(), std::nullopt);
  killed->Signal(SIGKILL);
  EXPECT_EQ(killed->Wait(20 * kSecond)->Describe(), "killed by SIGKILL");
  EXPECT_THROW(cluster->node(0).Spawn({.argv = {"no-such-program-of-ours"}}), UnavailableError);
}

TEST_F(ClusterTest, StopEndsAProcessThatIgnoresSigterm) {
  const auto cluster = Cluster::Create(Spec("stop"));
  const auto stubborn =
      cluster->node(0).Spawn({.argv = {"sh", "-c", "trap '' TERM; while :; do sleep .01; done"}});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(stubborn->Stop(kSecond / 5).signal, SIGKILL);
}

TEST_F(ClusterTest, BatchSchedulingAndProcessorAreSet) {
  ClusterSpec spec = Spec("batch");
  spec.nodes[0].cpu = 0;
  const auto cluster = Cluster::Create(spec);
  const auto process = cluster->node(0).Spawn({.argv = {"sleep", "1000"}, .sched_batch = true});
  EXPECT_EQ(sched_getscheduler(process->pid()), SCHED_BATCH);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(process->pid(), sizeof set, &set), 0);
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(0, &set));
}

TEST_F(ClusterTest, TimeNamespaceMovesMonotonicClockByTheSetOffset) {
  ClusterSpec spec = Spec("clock");
  spec.nodes[1].clock_offset_ns = 2'500'000'000;
  std::unique_ptr<Cluster> cluster;
  cluster = Cluster::Create(spec);
  if (!cluster->has_namespaces()) GTEST_SKIP() << cluster->limits().front();
  const std::vector<std::string> clock = {
      "python3", "-c", "import time;print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"};
  const int64_t before_ns = std::stoll(Output(cluster->node(0), clock, *cluster));
  const int64_t moved_ns = std::stoll(Output(cluster->node(1), clock, *cluster));
  const int64_t after_ns = std::stoll(Output(cluster->node(0), clock, *cluster));
  EXPECT_GE(moved_ns - 2'500'000'000, before_ns);
  EXPECT_LE(moved_ns - 2'500'000'000, after_ns);
}

TEST_F(ClusterTest, EndLeavesNothingBehindAlsoOfDaemons) {
  std::vector<std::pair<pid_t, uint64_t>> processes;
  const std::string run_id = TestRunId("end");
  {
    const auto cluster = Cluster::Create(Spec("end"));
    const auto daemon =
        cluster->node(0).Spawn({.argv = {"sh", "-c", "(setsid sleep 1000 &) ; sleep 1000"}});
    while (cluster->node(0).Processes().size() < 3) usleep(1000);
    for (const pid_t pid : cluster->node(0).Processes()) {
      processes.emplace_back(pid, ReadProcessStat(pid)->start_ticks);
    }
    processes.emplace_back(cluster->node(1).holder(),
                           ReadProcessStat(cluster->node(1).holder())->start_ticks);
  }
  for (const auto& [pid, start] : processes) EXPECT_FALSE(IsAlive(pid, start)) << pid;
  EXPECT_THAT(testing_support::TracesOf(run_id, InterfaceName(run_id, "")), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(state_.path() / "journal"));
}

TEST_F(ClusterTest, LoopbackSaysSo) {
  const auto cluster = Cluster::Create(Spec("loopback", Mode::kLoopback));
  EXPECT_FALSE(cluster->has_namespaces());
  EXPECT_EQ(cluster->node(1).address(), "127.0.0.1");
  EXPECT_EQ(cluster->node(1).interface(), "lo");
  EXPECT_THAT(cluster->limits().front(), HasSubstr("loopback"));
}

TEST_F(ClusterTest, BadSpecsAreRefused) {
  EXPECT_THROW(Cluster::Create({.run_id = "x", .nodes = {}}), ConfigError);
  EXPECT_THROW(Cluster::Create({.run_id = "x", .nodes = {{.name = "a"}, {.name = "a"}}}),
               ConfigError);
  EXPECT_THROW(Cluster::Create({.run_id = "../x", .nodes = {{.name = "a"}}}), ConfigError);
  const auto first = Cluster::Create(Spec("twice", Mode::kLoopback));
  EXPECT_THROW(Cluster::Create(Spec("twice", Mode::kLoopback)), ConfigError);
}

/// What Create gives a user without root: limits that say so, and nodes that work.
int CreateAsNobody(const std::filesystem::path& state) {
  if (setgid(65534) != 0 || setuid(65534) != 0) return 10;
  setenv("TELLER_STATE_DIR", state.c_str(), 1);
  const auto cluster = Cluster::Create(Spec("nobody"));
  std::fprintf(stderr, "%s\n", cluster->limits().front().c_str());
  if (cluster->limits().front().find("no root") != 0) return 11;
  for (std::size_t index = 0; index < cluster->size(); ++index) {
    const auto process = cluster->node(index).Spawn({.argv = {"true"}});
    const auto status = process->Wait(20 * kSecond);
    if (!status || status->ShellCode() != 0) return 12;
  }
  return 0;
}

TEST_F(ClusterTest, WorksWithoutRootAndSaysSo) {
  if (geteuid() != 0) GTEST_SKIP() << "not root: every other test covers this";
  const auto state = state_.path() / "nobody";
  std::filesystem::create_directory(state);
  ASSERT_EQ(chown(state.c_str(), 65534, 65534), 0);
  std::filesystem::permissions(state_.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  const pid_t child = fork();
  if (child == 0) _exit(CreateAsNobody(state));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(std::filesystem::is_empty(state / "journal"));
}

TEST(InterfaceNameTest, FitsTheKernelAndIsStable) {
  const std::string name = InterfaceName("quickstart-seed7-run03", "v12");
  EXPECT_LE(name.size(), 15u);
  EXPECT_EQ(name, InterfaceName("quickstart-seed7-run03", "v12"));
  EXPECT_NE(name, InterfaceName("quickstart-seed7-run04", "v12"));
}

}  // namespace
}  // namespace teller::cluster
