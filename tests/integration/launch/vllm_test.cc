#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "src/cluster/process_table.h"
#include "src/core/error.h"
#include "src/workload/launch/workload.h"

namespace teller::launch {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

/// The real engine over two nodes: it starts, answers, its workers are found, nothing is left.
/// About half a minute.
TEST(VllmTest, AnswersOverTwoNodesAndItsWorkersAreFound) {
  const auto workload = Workload::Read(
      config::Node::Parse("kind: vllm\nmodel: tiny\nengine: {max_length: 256}\n", "vllm.yaml"));
  try {
    workload->CheckAvailable();
  } catch (const UnavailableError& error) {
    GTEST_SKIP() << error.what();
  }
  char path[] = "/tmp/teller-test-vllm-XXXXXX";
  const std::filesystem::path folder = mkdtemp(path);
  setenv("TELLER_STATE_DIR", (folder / "state").c_str(), 1);
  const auto cluster = cluster::Cluster::Create(
      {.run_id = "test-vllm-" + std::to_string(getpid()),
       .nodes = {{.name = "node0", .cpu = 0}, {.name = "node1", .cpu = 1}}});
  if (!cluster->has_namespaces()) GTEST_SKIP() << cluster->limits().front();
  workload->Start(*cluster, {.environment = {}, .log_folder = folder});
  workload->WaitReady(240 * kSecond);
  const auto ranks = workload->RankProcesses();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].node, "node1");
  const std::string script =
      "import json,urllib.request as u\n"
      "r=u.Request('" +
      workload->endpoint()->url +
      "/v1/completions',json.dumps({'model':'tiny','prompt':'a step',"
      "'max_tokens':8,'ignore_eos':True}).encode(),{'Content-Type':'application/json'})\n"
      "print(json.load(u.urlopen(r))['usage']['completion_tokens'])";
  const auto probe =
      cluster->node(0).Spawn({.argv = {"python3", "-c", script}, .stdout_file = folder / "answer"});
  ASSERT_EQ(probe->Wait(60 * kSecond)->ShellCode(), 0);
  std::string answer;
  std::ifstream(folder / "answer") >> answer;
  EXPECT_EQ(answer, "8");
  EXPECT_EQ(workload->Failure(), std::nullopt);
  workload->Stop(20 * kSecond);
  EXPECT_FALSE(cluster::IsAlive(ranks[0].pid, ranks[0].start_ticks));
  EXPECT_FALSE(cluster::IsAlive(ranks[1].pid, ranks[1].start_ticks));
  unsetenv("TELLER_STATE_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace teller::launch
