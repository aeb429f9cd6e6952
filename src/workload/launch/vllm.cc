// Launches vLLM, unmodified, one `vllm serve` a node: rank 0 answers requests, the others are
// headless. It needs nothing but documented options and variables; each node's worker is found by
// its name among the node's processes.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "src/cluster/process_table.h"
#include "src/core/error.h"
#include "src/workload/launch/http_post.h"
#include "src/workload/launch/ranked_workload.h"

namespace teller::launch {
namespace {

constexpr int kHttpPort = 8000;
constexpr int kMasterPort = 29600;
constexpr char kReadyLine[] = "Application startup complete.";
/// The kernel cuts a process's name after 15 characters.
constexpr char kWorkerName[] = "VLLM::Worker";

std::filesystem::path Environment() {
  const char* folder = std::getenv("TELLER_VLLM_VENV");
  return folder != nullptr && *folder != 0 ? folder : ".venv-vllm";
}

class Vllm : public RankedWorkload {
 public:
  explicit Vllm(const config::Node& part)
      : RankedWorkload("vllm"), venv_(std::filesystem::absolute(Environment())) {
    static constexpr std::array<std::string_view, 2> kWeights = {"dummy", "auto"};
    static constexpr std::array<std::string_view, 3> kScopes = {"nvtx", "torch", "none"};
    if (const auto version = part.Find("schema_version")) version->AsInt(1, 1);
    part.Get("kind");
    part.Read("model", model_);
    if (const auto model = part.Find("model")) model_path_ = model->AsPath();
    part.Read("dtype", dtype_);
    if (const auto weights = part.Find("weights")) weights_ = weights->AsChoice(kWeights);
    if (const auto scopes = part.Find("scopes")) scopes_ = scopes->AsChoice(kScopes);
    if (const auto parallel = part.Find("parallel")) parallel->Read("tensor", tensor_, 1, 64);
    if (const auto engine = part.Find("engine")) ReadEngine(*engine);
    part.Read("annotate", annotate_);
    part.Read("arguments", arguments_);
    if (const auto environment = part.Find("environment")) {
      for (const auto& [name, value] : environment->Entries())
        environment_[name] = value.AsString();
    }
    part.RejectUnknownKeys();
    set_ready_text(kReadyLine);
  }

  int ranks() const override { return tensor_; }
  int nodes() const override { return tensor_; }
  StepPatterns steps() const override {
    return {.range = annotate_ ? "execute_context_*" : "gpu_model_runner: forward"};
  }

  void CheckAvailable() const override {
    const auto program = venv_ / "bin" / "vllm";
    if (access(program.c_str(), X_OK) != 0) {
      throw UnavailableError(fmt::format(
          "vllm workload: {} is not there; run scripts/setup_vllm.sh, or set TELLER_VLLM_VENV",
          program.string()));
    }
    ModelFolder();
  }

  void Start(cluster::Cluster& cluster, const StartOptions& options) override {
    CheckAvailable();
    http_port_ = ChoosePort(cluster, kHttpPort);
    const int master_port = ChoosePort(cluster, kMasterPort);
    // Sockets and caches go where they vanish with the run.
    const auto scratch = cluster.run_dir() / "vllm";
    profiler_folder_ = scratch / "profiler";
    std::filesystem::create_directories(profiler_folder_);
    for (int rank = 0; rank < tensor_; ++rank) {
      cluster::Node& node = cluster.node(static_cast<std::size_t>(rank) % cluster.size());
      Launch(fmt::format("rank {}", rank), node,
             {.argv = Arguments(rank, master_port, cluster.node(0)),
              .environment = Variables(node, scratch, options),
              .sched_batch = true},
             options);
    }
    endpoint_ = Endpoint{.url = fmt::format("http://127.0.0.1:{}", http_port_),
                         .node = cluster.node(0).name(),
                         .model = model_};
  }

  void WaitReady(int64_t timeout_ns) override {
    RankedWorkload::WaitReady(timeout_ns);
    for (int rank = 0; rank < tensor_; ++rank) workers_.push_back(FindWorker(rank));
    // Steps get their range, 'execute_context_A(B)_generation_C(D)', once the profiler has started.
    if (annotate_) PostFrom(*launched().front().node, endpoint_->url + "/start_profile");
  }

  std::optional<Endpoint> endpoint() const override { return endpoint_; }
  std::vector<cluster::RankProcess> RankProcesses() const override { return workers_; }

 private:
  void ReadEngine(const config::Node& part) {
    part.Read("max_requests", max_requests_, 1, 1024);
    part.Read("max_length", max_length_, 2, 1 << 20);
    part.Read("kv_cache_gib", kv_cache_gib_, 1, 4096);
    part.Read("seed", seed_, 0);
  }

  std::filesystem::path ModelFolder() const {
    for (const auto& folder : {venv_ / "teller-models" / model_, model_path_}) {
      if (std::filesystem::exists(folder / "config.json")) return std::filesystem::absolute(folder);
    }
    throw UnavailableError(
        fmt::format("vllm workload: there is no model '{}' in {}; run scripts/setup_vllm.sh, or "
                    "name a model's folder",
                    model_, (venv_ / "teller-models").string()));
  }

  std::vector<std::string> Arguments(int rank, int master_port, const cluster::Node& master) const {
    std::vector<std::string> argv = {(venv_ / "bin" / "vllm").string(),
                                     "serve",
                                     ModelFolder().string(),
                                     "--served-model-name",
                                     model_,
                                     "--load-format",
                                     weights_,
                                     "--dtype",
                                     dtype_,
                                     "--max-model-len",
                                     std::to_string(max_length_),
                                     "--max-num-seqs",
                                     std::to_string(max_requests_),
                                     "--seed",
                                     std::to_string(seed_),
                                     "--enforce-eager",
                                     "--tensor-parallel-size",
                                     std::to_string(tensor_),
                                     "--distributed-executor-backend",
                                     "mp",
                                     "--nnodes",
                                     std::to_string(tensor_),
                                     "--node-rank",
                                     std::to_string(rank),
                                     "--master-addr",
                                     master.address(),
                                     "--master-port",
                                     std::to_string(master_port)};
    if (rank == 0) {
      argv.insert(argv.end(), {"--host", "127.0.0.1", "--port", std::to_string(http_port_)});
      if (annotate_) argv.push_back("--enable-log-requests");
    } else {
      argv.push_back("--headless");
    }
    if (annotate_) argv.insert(argv.end(), {"--profiler-config", IdleProfiler()});
    argv.insert(argv.end(), arguments_.begin(), arguments_.end());
    return argv;
  }

  /// vLLM names its steps only with a profiler configured and started. This one waits for ever,
  /// which its documentation calls completely off, so that nothing but the names comes of it.
  std::string IdleProfiler() const {
    return fmt::format(
        R"({{"profiler":"torch","torch_profiler_dir":"{}","torch_profiler_activities":["CPU"],)"
        R"("torch_profiler_with_stack":false,"ignore_frontend":true,"wait_iterations":2000000000}})",
        profiler_folder_.string());
  }

  std::map<std::string, std::string> Variables(const cluster::Node& node,
                                               const std::filesystem::path& scratch,
                                               const StartOptions& options) const {
    const char* path = std::getenv("PATH");
    std::map<std::string, std::string> variables = options.environment;
    variables["PATH"] = (venv_ / "bin").string() + ":" + (path == nullptr ? "/usr/bin:/bin" : path);
    variables["VLLM_HOST_IP"] = node.address();
    variables["GLOO_SOCKET_IFNAME"] = node.interface();
    // Different per node: else ranks take each other for neighbours in one shared memory, and
    // collectives leave the network.
    variables["VLLM_DIST_IDENT"] = node.name();
    variables["VLLM_CPU_OMP_THREADS_BIND"] =
        node.cpu() >= 0 ? std::to_string(node.cpu()) : "nobind";
    variables["VLLM_CPU_KVCACHE_SPACE"] = std::to_string(kv_cache_gib_);
    variables["VLLM_NO_USAGE_STATS"] = "1";
    variables["VLLM_RPC_BASE_PATH"] = scratch.string();
    variables["VLLM_CACHE_ROOT"] = scratch.string();
    variables["XDG_CACHE_HOME"] = scratch.string();
    variables["TMPDIR"] = scratch.string();
    variables["HF_HUB_OFFLINE"] = "1";
    variables["TORCHDYNAMO_DISABLE"] = "1";  // else the first request compiles for 10 s and more
    variables["OMP_NUM_THREADS"] = "1";
    if (scopes_ == "nvtx") variables["VLLM_NVTX_SCOPES_FOR_PROFILING"] = "1";
    if (scopes_ == "torch") variables["VLLM_CUSTOM_SCOPES_FOR_PROFILING"] = "1";
    for (const auto& [name, value] : environment_) variables[name] = value;
    return variables;
  }

  /// One worker a node, so the node tells the rank: names of workers are cut before their rank.
  cluster::RankProcess FindWorker(int rank) const {
    const cluster::Node& node = *launched()[static_cast<std::size_t>(rank)].node;
    for (const pid_t pid :
         cluster::Descendants(launched()[static_cast<std::size_t>(rank)].process->pid())) {
      const auto stat = cluster::ReadProcessStat(pid);
      if (stat && stat->comm.starts_with(kWorkerName))
        return AsRank(rank, node, pid, stat->start_ticks);
    }
    throw DeviceError(fmt::format("vllm workload: rank {} on {} has no process named {}", rank,
                                  node.name(), kWorkerName));
  }

  std::filesystem::path venv_;
  std::string model_ = "base";
  std::filesystem::path model_path_;
  std::string weights_ = "dummy", dtype_ = "bfloat16", scopes_ = "nvtx";
  int tensor_ = 2, max_requests_ = 8, max_length_ = 512, kv_cache_gib_ = 1, seed_ = 0;
  bool annotate_ = true;
  std::filesystem::path profiler_folder_;
  std::vector<std::string> arguments_;
  std::map<std::string, std::string> environment_;
  int http_port_ = kHttpPort;
  std::optional<Endpoint> endpoint_;
  std::vector<cluster::RankProcess> workers_;
};

}  // namespace

std::unique_ptr<Workload> ReadVllm(const config::Node& part) {
  return std::make_unique<Vllm>(part);
}

}  // namespace teller::launch
