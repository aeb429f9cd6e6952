// The kinds against engines over two nodes: each acts on the rank and the calls it names, and steps
// last at least about as long as what was recorded in them. Steps are counted by a delay of zero at
// their range.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "fault_injection/injector.h"
#include "src/abi/control_file.h"
#include "src/cluster/cluster.h"
#include "src/collect/session.h"
#include "src/core/error.h"
#include "src/workload/launch/program.h"
#include "src/workload/launch/workload.h"
#include "tests/integration/fault_injection/truth_lines.h"

namespace teller::fault_injection {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr uint32_t kStepPlan = 1000;
/// Without a fault, before the first: a busy machine makes few steps in a second.
constexpr int64_t kHealthyMs = 1500;

PlannedFault Delay(uint32_t id, const std::string& kind, int rank, const std::string& layer,
                   const std::string& symbol, double delay_ms = 3) {
  return {
      .plan_id = id,
      .stretch = static_cast<int32_t>(id),
      .kind = kind,
      .level = 3,
      .magnitude = {{"delay_ns", delay_ms * 1e6}},
      .target = {.rank = RankId{rank}, .layer = layer, .symbol = symbol, .culprit_symbol = symbol},
      .begin_ns = static_cast<int64_t>(kHealthyMs + 1200 * id) * kMs,
      .length_ns = 900 * kMs};
}

std::ostream& operator<<(std::ostream& out, const struct Subject& subject);

struct Subject {
  std::string name;
  std::string workload;  ///< YAML of a `workload:` part
  std::vector<PlannedFault> faults;
};

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

class EngineFaultsTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    const std::string here = std::string(TELLER_SOURCE_DIR) + "/configs/workload/test.yaml";
    workload_ = launch::Workload::Read(config::Node::Parse(GetParam().workload, here));
    try {
      workload_->CheckAvailable();
      load_ = launch::FindProgram("teller-load").string();
      agent_ = collect::FindAgentLibrary();
    } catch (const UnavailableError& error) {
      GTEST_SKIP() << error.what();
    }
    char path[] = "/tmp/teller-test-faults-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    cluster_ = cluster::Cluster::Create(
        {.run_id = "test-faults-" + std::to_string(getpid()),
         .nodes = {{.name = "node0", .cpu = 0}, {.name = "node1", .cpu = 1}}});
    ASSERT_EQ(teller_control_create(cluster_->run_dir().c_str(), &control_), 0);
    teller_control_set_perturb(control_, 1);
    workload_->Start(*cluster_,
                     {.environment = collect::AgentEnvironment(agent_, cluster_->run_dir(), ""),
                      .log_folder = folder_});
    workload_->WaitReady(280 * kSecond);
    StartLoad();
  }

  void TearDown() override {
    load_process_.reset();
    if (cluster_ != nullptr && control_ != nullptr) workload_->Stop(5 * kSecond);
    teller_control_unmap(control_);
    workload_.reset();
    cluster_.reset();
    unsetenv("TELLER_STATE_DIR");
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void StartLoad() {
    load_process_ = cluster_->node(0).Spawn(
        {.argv = {load_, "--url", workload_->endpoint()->url, "--concurrency", "2", "--duration",
                  "60", "--prompt-tokens", "8", "--output-tokens", "400"},
         .stdout_file = folder_ / "load.out",
         .stderr_file = folder_ / "load.err"});
  }

  /// A stall of zero at every step of rank 0: its hits are the steps.
  PlannedFault StepCounter(int64_t length_ns) const {
    return {.plan_id = kStepPlan,
            .stretch = 0,
            .kind = "scheduler_stall",
            .level = 1,
            .magnitude = {{"delay_ns", 0}},
            .target = {.rank = RankId{0}, .layer = "engine", .symbol = workload_->steps().range},
            .begin_ns = 0,
            .length_ns = length_ns};
  }

  /// Begin of every step that lies in [from, to).
  static std::vector<int64_t> Steps(const std::vector<nlohmann::json>& actions, int64_t from,
                                    int64_t to) {
    std::vector<int64_t> begins;
    for (const auto& action : actions) {
      const int64_t begin_ns = action.at("begin_ns");
      if (action.at("plan_id") == kStepPlan && begin_ns >= from && begin_ns < to)
        begins.push_back(begin_ns);
    }
    std::sort(begins.begin(), begins.end());
    return begins;
  }

  static int64_t TimeOf(const std::vector<nlohmann::json>& truth, const std::string& type,
                        uint32_t plan_id) {
    for (const auto& line : testing_support::OfType(truth, type)) {
      if (line.at("plan_id") == plan_id) return line.at("time_ns");
    }
    ADD_FAILURE() << "no " << type << " of plan " << plan_id;
    return 0;
  }

  static double MedianStepMs(const std::vector<int64_t>& begins) {
    std::vector<double> lengths;
    for (std::size_t i = 1; i < begins.size(); ++i) {
      lengths.push_back(static_cast<double>(begins[i] - begins[i - 1]) * 1e-6);
    }
    if (lengths.empty()) return 0;
    std::nth_element(lengths.begin(),
                     lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2),
                     lengths.end());
    return lengths[lengths.size() / 2];
  }

  std::unique_ptr<launch::Workload> workload_;
  std::string load_;
  std::filesystem::path agent_, folder_;
  std::unique_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<cluster::Process> load_process_;
  TellerControl* control_ = nullptr;
};

TEST_P(EngineFaultsTest, AgentKindsActOnTheRankAndCallTheyName) {
  const std::vector<PlannedFault>& faults = GetParam().faults;
  std::vector<PlannedFault> planned = faults;
  planned.push_back(StepCounter((kHealthyMs + 1200 * static_cast<int64_t>(faults.size())) * kMs));
  Injector injector(
      {.seed = 1,
       .calibration_ns = 0,
       .duration_ns = (kHealthyMs + 100 + 1200 * static_cast<int64_t>(faults.size())) * kMs,
       .faults = planned},
      workload_->RankProcesses(),
      {.run_id = "engine",
       .truth_path = folder_ / "truth.jsonl",
       .run_dir = cluster_->run_dir(),
       .control = control_,
       .journal = &cluster_->journal()});
  const auto summary = injector.Run();
  EXPECT_EQ(summary.ineffective, 0);
  EXPECT_EQ(summary.lost, 0);
  const auto truth = testing_support::ReadTruth(folder_ / "truth.jsonl");
  const auto actions = testing_support::OfType(truth, "action");
  const double healthy_ms = MedianStepMs(
      Steps(actions, TimeOf(truth, "stretch_begin", kStepPlan), TimeOf(truth, "stretch_begin", 0)));
  ASSERT_GT(healthy_ms, 0);
  for (const PlannedFault& fault : faults) {
    const int64_t from = TimeOf(truth, "stretch_begin", fault.plan_id);
    const int64_t to = TimeOf(truth, "stretch_end", fault.plan_id);
    const auto steps = Steps(actions, from, to);
    int64_t hits = 0, recorded_ns = 0;
    for (const auto& action : actions) {
      if (action.at("plan_id") != fault.plan_id) continue;
      ++hits;
      recorded_ns += action.at("end_ns").get<int64_t>() - action.at("begin_ns").get<int64_t>();
      EXPECT_EQ(action.at("rank"), static_cast<int>(fault.target.rank));
    }
    ASSERT_GE(steps.size(), 3u);
    const double calls = static_cast<double>(hits) / static_cast<double>(steps.size());
    const double recorded_ms =
        static_cast<double>(recorded_ns) * 1e-6 / static_cast<double>(steps.size());
    const double faulty_ms = MedianStepMs(steps);
    std::printf("%s %s: %.1f calls a step, recorded %.2f ms a step, step %.2f -> %.2f ms\n",
                fault.kind.c_str(), fault.target.symbol.c_str(), calls, recorded_ms, healthy_ms,
                faulty_ms);
    EXPECT_GT(calls, 0.5);
    // What was recorded is several healthy steps long, so a fault beside the critical path would be
    // far below it.
    EXPECT_GT(faulty_ms, 0.7 * recorded_ms);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Engines, EngineFaultsTest,
    ::testing::Values(
        Subject{.name = "Reference",
                .workload = "use: reference.yaml\n",
                .faults = {Delay(0, "collective_delay", 1, "comm", "all_reduce"),
                           Delay(1, "operator_slowdown", 0, "backend", "teller::linear"),
                           Delay(2, "operator_slowdown", 1, "device", "paged_attention_f32_kernel"),
                           Delay(3, "launch_delay", 0, "host_api", "linear_f32_kernel"),
                           Delay(4, "sync_delay", 1, "host_api", "eventSynchronize", 20),
                           Delay(5, "scheduler_stall", 0, "engine", "schedule", 20),
                           Delay(6, "copy_delay", 1, "host_api", "streamCopy", 20)}},
        Subject{.name = "Vllm",
                .workload = "use: vllm.yaml\nmodel: tiny\n",
                .faults = {Delay(0, "collective_delay", 1, "comm", "gloo:all_reduce"),
                           Delay(1, "operator_slowdown", 0, "backend", "_C::onednn_mm")}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace teller::fault_injection
