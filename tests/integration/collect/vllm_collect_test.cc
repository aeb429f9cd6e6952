// The real engine over two nodes under the collector: one file with what all its processes did.
// About a minute; skips where scripts/setup_vllm.sh was not run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "src/cluster/cluster.h"
#include "src/collect/session.h"
#include "src/core/error.h"
#include "src/dataset/build_steps.h"
#include "src/workload/launch/program.h"
#include "src/workload/launch/workload.h"
#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class VllmCollectTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    workload_ = launch::Workload::Read(
        config::Node::Parse("kind: vllm\nmodel: tiny\nengine: {max_length: 256}\n", "vllm.yaml"));
    try {
      workload_->CheckAvailable();
    } catch (const UnavailableError& error) {
      GTEST_SKIP() << error.what();
    }
    cluster_ = cluster::Cluster::Create({.run_id = "collect-vllm-" + std::to_string(getpid()),
                                         .nodes = {{.name = "node0"}, {.name = "node1"}}});
    if (!cluster_->has_namespaces()) GTEST_SKIP() << cluster_->limits().front();
  }
  void TearDown() override {
    cluster_.reset();
    unsetenv("TELLER_STATE_DIR");
  }

  /// Starts it, asks eight requests of it, two at a time, stops it.
  void Run(collect::Session& session) {
    workload_->Start(*cluster_,
                     {.environment = session.Environment(), .log_folder = folder_.path()});
    for (const std::string node : {"node0", "node1"}) {
      for (const std::string stream : {"stdout", "stderr"}) {
        const std::string name = node + "." + stream + ".log";
        session.AddLogFile(node, name, folder_ / name);
      }
    }
    workload_->WaitReady(240 * kSecond);
    const auto load = cluster_->node(0).Spawn(
        {.argv = {launch::FindProgram("teller-load").string(), "--url", workload_->endpoint()->url,
                  "--model", "tiny", "--concurrency", "2", "--requests", "8", "--prompt-tokens",
                  "16", "--output-tokens", "12", "--output", (folder_ / "load.jsonl").string()},
         .stdout_file = folder_ / "load.out",
         .stderr_file = folder_ / "load.err"});
    ASSERT_EQ(load->Wait(120 * kSecond)->ShellCode(), 0);
    workload_->Stop(20 * kSecond);
    session.Finish();
  }

  TemporaryFolder folder_;
  std::unique_ptr<cluster::Cluster> cluster_;  // outlives the engine on it
  std::unique_ptr<launch::Workload> workload_;
};

/// Events of one layer in a process.
int64_t CountLayer(const trace::EventTable& events, trace::Layer layer) {
  return std::ranges::count(events.layer, layer);
}

TEST_F(VllmCollectTest, OneFileHoldsWhatAllProcessesOfBothNodesDid) {
  const auto session = collect::Session::Start({.output = folder_ / "t.h5",
                                                .run_dir = cluster_->run_dir(),
                                                .run_id = cluster_->run_id(),
                                                .workload = "vllm"});
  Run(*session);
  const Collected collected(folder_ / "t.h5");
  EXPECT_TRUE(collected.reader.complete());
  std::map<int32_t, std::string> node_of_rank;
  bool scheduler = false, api_server_logs = false;
  for (std::size_t i = 0; i < collected.reader.processes().size(); ++i) {
    const trace::ProcessInfo& process = collected.reader.processes()[i];
    const trace::EventTable& events = collected.events[i];
    for (const StringId name : events.name)
      scheduler = scheduler || collected.Text(name).starts_with("schedule: ");
    if (process.rank == kNoRank) continue;
    const auto [entry, fresh] =
        node_of_rank.emplace(static_cast<int32_t>(process.rank), process.node);
    EXPECT_TRUE(fresh) << "rank twice";
    EXPECT_GT(CountLayer(events, trace::Layer::kEngine), 50);
    EXPECT_GT(CountLayer(events, trace::Layer::kBackend), 1000);
    EXPECT_GT(CountLayer(events, trace::Layer::kComm), 100);
  }
  EXPECT_THAT(node_of_rank,
              testing::ElementsAre(testing::Pair(0, "node0"), testing::Pair(1, "node1")));
  EXPECT_TRUE(scheduler);
  std::set<std::string> nodes_with_lines;
  for (const trace::LogLine& line : collected.reader.ReadLogs()) {
    EXPECT_GT(line.read_ns, 0);
    if (line.process < 0) continue;
    nodes_with_lines.insert(
        collected.reader.processes()[static_cast<std::size_t>(line.process)].node);
    api_server_logs = api_server_logs || line.text.find("Received request") != std::string::npos;
  }
  EXPECT_EQ(nodes_with_lines.size(), 2u);
  EXPECT_TRUE(api_server_logs);

  const dataset::StepsFile steps = dataset::BuildStepsOfTrace(folder_ / "t.h5");
  ASSERT_GT(steps.run.steps.size(), 40u);  // 8 requests of 12 tokens, two at a time
  std::set<std::string> requests;
  int batches_of_two = 0, on_both = 0;
  for (const reconstruct::StepForest& step : steps.run.steps) {
    batches_of_two += step.batch_size == 2 ? 1 : 0;
    on_both += step.ranks.size() == 2 ? 1 : 0;
    requests.insert(step.requests.begin(), step.requests.end());
  }
  EXPECT_EQ(requests.size(), 8u);
  EXPECT_GT(batches_of_two, 20);
  EXPECT_GT(on_both, static_cast<int>(steps.run.steps.size()) - 5);
}

}  // namespace
}  // namespace teller::testing_support
