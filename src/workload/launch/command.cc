// Launches any command: one process a rank, with the variables that torch's own launcher sets.
#include <fmt/format.h>

#include "src/workload/launch/ranked_workload.h"

namespace teller::launch {
namespace {

constexpr int kMasterPort = 29400;

class Command : public RankedWorkload {
 public:
  explicit Command(const config::Node& part) : RankedWorkload("command") {
    if (const auto version = part.Find("schema_version")) version->AsInt(1, 1);
    part.Get("kind");
    part.Read("argv", argv_);
    if (argv_.empty()) part.Get("argv").Fail("a command is expected");
    part.Read("ranks", ranks_, 1, 64);
    std::string ready;
    part.Read("ready", ready);
    set_ready_text(ready);
    part.Read("sched_batch", sched_batch_);
    if (const auto folder = part.Find("folder")) folder_ = folder->AsPath();
    if (const auto environment = part.Find("environment")) {
      for (const auto& [name, value] : environment->Entries())
        environment_[name] = value.AsString();
    }
    if (const auto steps = part.Find("steps")) ReadSteps(*steps);
    part.RejectUnknownKeys();
  }

  int ranks() const override { return ranks_; }
  int nodes() const override { return ranks_; }
  StepPatterns steps() const override { return steps_; }
  /// What argv names is found out when it is started, on its node.
  void CheckAvailable() const override {}

  void Start(cluster::Cluster& cluster, const StartOptions& options) override {
    const int port = ChoosePort(cluster, kMasterPort);
    for (int rank = 0; rank < ranks_; ++rank) {
      cluster::Node& node = cluster.node(static_cast<std::size_t>(rank) % cluster.size());
      Launch(fmt::format("rank {}", rank), node,
             {.argv = argv_,
              .environment = Environment(rank, port, cluster.node(0), node, options),
              .working_folder = folder_,
              .sched_batch = sched_batch_},
             options);
    }
  }

  std::optional<Endpoint> endpoint() const override { return std::nullopt; }

  std::vector<cluster::RankProcess> RankProcesses() const override {
    std::vector<cluster::RankProcess> processes;
    for (const Launched& rank : launched()) {
      processes.push_back(AsRank(static_cast<int>(processes.size()), *rank.node,
                                 rank.process->pid(), rank.process->start_ticks()));
    }
    return processes;
  }

  /// A command may end by itself: that is no failure where its code is 0.
  std::optional<std::string> Failure() override {
    for (const Launched& rank : launched()) {
      const auto status = rank.process->Poll();
      if (status && status->ShellCode() != 0) return RankedWorkload::Failure();
    }
    return std::nullopt;
  }

  std::optional<cluster::ExitStatus> WaitEnd(int64_t timeout_ns) override {
    return launched().empty() ? std::nullopt : launched().front().process->Wait(timeout_ns);
  }

 private:
  void ReadSteps(const config::Node& part) {
    part.Read("range", steps_.range);
    part.Read("phase", steps_.phase);
    part.Read("batch_size", steps_.batch_size);
    part.Read("request_ids", steps_.request_ids);
  }

  std::map<std::string, std::string> Environment(int rank, int port, const cluster::Node& master,
                                                 const cluster::Node& node,
                                                 const StartOptions& options) const {
    std::map<std::string, std::string> environment = options.environment;
    environment["RANK"] = std::to_string(rank);
    environment["LOCAL_RANK"] = "0";
    environment["WORLD_SIZE"] = std::to_string(ranks_);
    environment["MASTER_ADDR"] = master.address();
    environment["MASTER_PORT"] = std::to_string(port);
    environment["GLOO_SOCKET_IFNAME"] = node.interface();
    environment["OMP_NUM_THREADS"] = "1";
    for (const auto& [name, value] : environment_) environment[name] = value;
    return environment;
  }

  std::vector<std::string> argv_;
  std::map<std::string, std::string> environment_;
  std::filesystem::path folder_;
  StepPatterns steps_;
  int ranks_ = 1;
  bool sched_batch_ = true;
};

}  // namespace

std::unique_ptr<Workload> ReadCommand(const config::Node& part) {
  return std::make_unique<Command>(part);
}

}  // namespace teller::launch
