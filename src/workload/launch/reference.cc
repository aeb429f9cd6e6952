// Launches `teller-serve`, one process a rank (start contract: src/workload/serve/README.md).
#include <fmt/format.h>

#include <fstream>

#include "src/core/error.h"
#include "src/workload/launch/program.h"
#include "src/workload/launch/ranked_workload.h"

namespace teller::launch {
namespace {

constexpr int kHttpPort = 8000;
constexpr int kMasterPort = 29500;
constexpr char kReadyLine[] = "Application startup complete.";

class Reference : public RankedWorkload {
 public:
  explicit Reference(const config::Node& part) : RankedWorkload("reference"), yaml_(part.ToYaml()) {
    // The service reads its configuration itself; here only what launching needs.
    part.Entries();
    const config::Node model = part.Get("model");
    model.Read("name", model_);
    if (const auto tokenizer = model.Find("tokenizer")) tokenizer_ = tokenizer->AsPath();
    if (const auto parallel = part.Find("parallel")) {
      int tensor = 1, pipeline = 1;
      parallel->Read("tensor", tensor, 1, 64);
      parallel->Read("pipeline", pipeline, 1, 64);
      ranks_ = tensor * pipeline;
    }
    set_ready_text(kReadyLine);
  }

  int ranks() const override { return ranks_; }
  int nodes() const override { return ranks_; }
  StepPatterns steps() const override { return {.range = "execute_context_*"}; }
  void CheckAvailable() const override { FindProgram("teller-serve"); }

  void Start(cluster::Cluster& cluster, const StartOptions& options) override {
    const auto config = options.log_folder / "reference.yaml";
    if (!(std::ofstream(config) << yaml_ << std::flush)) {
      throw DeviceError(fmt::format("write {}: no such folder or no space", config.string()));
    }
    http_port_ = ChoosePort(cluster, kHttpPort);
    const int master_port = ChoosePort(cluster, kMasterPort);
    for (int rank = 0; rank < ranks_; ++rank) {
      cluster::Node& node = cluster.node(static_cast<std::size_t>(rank) % cluster.size());
      Launch(fmt::format("rank {}", rank), node,
             {.argv = Arguments(rank, master_port, config, cluster.node(0), node),
              .environment = Environment(rank, options),
              .sched_batch = true},
             options);
    }
    endpoint_ = Endpoint{.url = fmt::format("http://127.0.0.1:{}", http_port_),
                         .node = cluster.node(0).name(),
                         .model = model_};
  }

  std::optional<Endpoint> endpoint() const override { return endpoint_; }

  std::vector<cluster::RankProcess> RankProcesses() const override {
    std::vector<cluster::RankProcess> processes;
    for (const Launched& rank : launched()) {
      processes.push_back(AsRank(static_cast<int>(processes.size()), *rank.node,
                                 rank.process->pid(), rank.process->start_ticks()));
    }
    return processes;
  }

 private:
  std::vector<std::string> Arguments(int rank, int master_port, const std::filesystem::path& config,
                                     const cluster::Node& master, const cluster::Node& node) const {
    std::vector<std::string> argv = {FindProgram("teller-serve").string(),
                                     "--config",
                                     config.string(),
                                     "--rank",
                                     std::to_string(rank),
                                     "--world-size",
                                     std::to_string(ranks_),
                                     "--master-addr",
                                     master.address(),
                                     "--master-port",
                                     std::to_string(master_port),
                                     "--local-addr",
                                     node.address(),
                                     "--host",
                                     "127.0.0.1",
                                     "--port",
                                     std::to_string(http_port_)};
    if (!tokenizer_.empty()) {
      argv.insert(argv.end(),
                  {"--set", "model.tokenizer=" + std::filesystem::absolute(tokenizer_).string()});
    }
    return argv;
  }

  std::map<std::string, std::string> Environment(int rank, const StartOptions& options) const {
    std::map<std::string, std::string> environment = options.environment;
    environment["RANK"] = std::to_string(rank);
    environment["WORLD_SIZE"] = std::to_string(ranks_);
    environment["OMP_NUM_THREADS"] = "1";
    return environment;
  }

  std::string yaml_;
  std::string model_ = "teller-reference";
  std::filesystem::path tokenizer_;
  int ranks_ = 1;
  int http_port_ = kHttpPort;
  std::optional<Endpoint> endpoint_;
};

}  // namespace

std::unique_ptr<Workload> ReadReference(const config::Node& part) {
  return std::make_unique<Reference>(part);
}

}  // namespace teller::launch
