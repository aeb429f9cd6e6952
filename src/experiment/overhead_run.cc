#include "src/experiment/overhead_run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "src/collect/session.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/random.h"
#include "src/experiment/load_process.h"
#include "src/experiment/profiler_switch.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kReadyTimeoutNs = 240'000'000'000;
constexpr int64_t kStopGraceNs = 10'000'000'000;
constexpr double kWarmUpS = 1.5;  // first requests after a start are slower
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A stretch on the wall, with what is known when it ends.
struct Stretch {
  StretchMeasure measure;
  int64_t begin_ns = 0, end_ns = 0;
};

/// One request of load.jsonl.
struct Request {
  int64_t begin_ns, first_token_ns, end_ns, tokens;
  double tpot_ns;
};

std::vector<Request> ReadRequests(const fs::path& path) {
  std::vector<Request> requests;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("status", "") != "ok" ||
        json.value("tpot_ns", int64_t{-1}) <= 0)
      continue;
    const int64_t begin_ns = json.at("begin_ns");
    requests.push_back({.begin_ns = begin_ns,
                        .first_token_ns = begin_ns + json.at("ttft_ns").get<int64_t>(),
                        .end_ns = json.at("end_ns"),
                        .tokens = json.at("output_tokens"),
                        .tpot_ns = json.at("tpot_ns")});
  }
  return requests;
}

/// Tokens of a request that came within the stretch: they are spread evenly from the first to the
/// end.
double TokensWithin(const Request& request, const Stretch& stretch) {
  const int64_t begin_ns = std::max(request.first_token_ns, stretch.begin_ns);
  const int64_t end_ns = std::min(request.end_ns, stretch.end_ns);
  const int64_t whole_ns = request.end_ns - request.first_token_ns;
  if (end_ns <= begin_ns || whole_ns <= 0) return 0;
  return static_cast<double>(request.tokens) * static_cast<double>(end_ns - begin_ns) /
         static_cast<double>(whole_ns);
}

/// A request counts with its token times where all of its tokens came within the stretch, with its
/// first token where it began within it too.
void FillFromRequests(const std::vector<Request>& requests, Stretch& stretch) {
  std::vector<double> tpot, ttft;
  double tokens = 0;
  for (const Request& request : requests) {
    if (request.end_ns <= stretch.begin_ns || request.begin_ns >= stretch.end_ns) continue;
    tokens += TokensWithin(request, stretch);
    if (request.first_token_ns > stretch.begin_ns && request.end_ns < stretch.end_ns)
      tpot.push_back(request.tpot_ns);
    if (request.begin_ns > stretch.begin_ns && request.first_token_ns < stretch.end_ns)
      ttft.push_back(static_cast<double>(request.first_token_ns - request.begin_ns));
  }
  stretch.measure.requests = static_cast<int64_t>(tpot.size());
  stretch.measure.tpot_ns = MedianOf(std::move(tpot));
  stretch.measure.ttft_ns = MedianOf(std::move(ttft));
  stretch.measure.tokens_per_s =
      tokens / (static_cast<double>(stretch.end_ns - stretch.begin_ns) / 1e9);
}

double MemoryOfMib(const fs::path& run_dir) {
  double bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_dir, ignored)) {
    struct stat status;
    if (entry.path().extension() == ".pool" && stat(entry.path().c_str(), &status) == 0)
      bytes += static_cast<double>(status.st_blocks) * 512;
  }
  return bytes / (1 << 20);
}

/// One start of an engine, attached or not.
class EngineStart {
 public:
  EngineStart(const OverheadConfig& config, const OverheadWorkload& workload, bool attached,
              int number, const fs::path& scratch)
      : config_(config),
        workload_(workload),
        attached_(attached),
        number_(number),
        folder_(scratch / fmt::format("{}-{}-{}", workload.name,
                                      attached ? "attached" : "not-attached", number)),
        order_(config.seed, folder_.filename().string()) {
    fs::create_directories(folder_ / "logs");
    fs::create_directories(scratch / "profiler");
    engine_ = launch::Workload::Read(workload.workload);
    engine_->CheckAvailable();
    const std::string run_id = fmt::format("overhead-{:x}", MonotonicNs() & 0xffffffff);
    cluster::ClusterSpec nodes{.run_id = run_id};
    for (int i = 0; i < engine_->nodes(); ++i)
      nodes.nodes.push_back({.name = fmt::format("node{}", i)});
    cluster_ = cluster::Cluster::Create(nodes);
    if (attached) Attach(run_id);
    engine_->Start(
        *cluster_,
        {.environment = environment_, .log_folder = folder_ / "logs", .seed = config.seed});
    engine_->WaitReady(kReadyTimeoutNs);
    if (attached && Wants(WatchMode::kProfiler) && engine_->kind() == "vllm") {
      profiler_ = ProfilerSwitch::Http(*cluster_, *engine_->endpoint(), scratch / "profiler");
    }
  }

  ~EngineStart() {
    engine_->Stop(kStopGraceNs);
    session_.reset();
    cluster_.reset();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  /// Every block at one concurrency. Ends early when `over` says so; answers what was measured.
  std::vector<StretchMeasure> Run(int concurrency, const std::function<bool()>& over,
                                  const std::function<void()>& tick) {
    const fs::path output = folder_ / fmt::format("load-{}.jsonl", concurrency);
    LoadProcess load({.concurrency = concurrency, .arguments = workload_.load},
                     *engine_->endpoint(), *cluster_, config_.seed, output, folder_ / "logs");
    Sleep(kWarmUpS);
    std::vector<Stretch> stretches;
    for (int block = 0; block < workload_.blocks && !over(); ++block) {
      for (const WatchMode mode : BlockOrder()) {
        stretches.push_back(RunStretch(mode, concurrency, block));
        load.CheckRunning();
        if (const auto failure = engine_->Failure()) throw DeviceError(*failure);
        tick();
      }
    }
    load.Stop();
    const std::vector<Request> requests = ReadRequests(output);
    std::vector<StretchMeasure> measures;
    for (Stretch& stretch : stretches) {
      FillFromRequests(requests, stretch);
      measures.push_back(stretch.measure);
    }
    return measures;
  }

 private:
  bool Wants(WatchMode mode) const {
    return std::ranges::find(workload_.modes, mode) != workload_.modes.end();
  }

  void Attach(const std::string& run_id) {
    session_ = collect::Session::Start({.output = folder_ / "trace.h5",
                                        .run_dir = cluster_->run_dir(),
                                        .run_id = run_id,
                                        .workload = engine_->kind(),
                                        .level = collect::Level::kOff});
    environment_ = session_->Environment();
    if (!Wants(WatchMode::kProfiler) || engine_->kind() != "reference") return;
    profiler_ = ProfilerSwitch::Preloaded(cluster_->run_dir(), engine_->ranks());
    profiler_->AddTo(environment_);
  }

  std::vector<WatchMode> BlockOrder() {
    if (!attached_) return {WatchMode::kNotAttached};
    std::vector<WatchMode> order;
    for (const WatchMode mode : workload_.modes) {
      if (mode != WatchMode::kProfiler || profiler_ != nullptr) order.push_back(mode);
    }
    order_.Shuffle(std::span(order));
    return order;
  }

  void Switch(WatchMode mode) {
    if (session_ == nullptr) return;
    session_->SetLevel(mode == WatchMode::kRanges ? collect::Level::kRanges
                       : mode == WatchMode::kFull ? collect::Level::kFull
                                                  : collect::Level::kOff);
    if (mode == WatchMode::kProfiler) profiler_->Set(true);
  }

  Stretch RunStretch(WatchMode mode, int concurrency, int block) {
    Switch(mode);
    Sleep(config_.settle_s);
    const int64_t drain_before_ns = session_ ? session_->DrainCpuNs() : 0;
    Stretch stretch{.measure = {.workload = workload_.name,
                                .concurrency = concurrency,
                                .mode = mode,
                                .start = number_,
                                .block = block},
                    .begin_ns = MonotonicNs()};
    Sleep(workload_.stretch_s - config_.settle_s);
    stretch.end_ns = MonotonicNs();
    if (session_) {
      stretch.measure.drain_cpu = static_cast<double>(session_->DrainCpuNs() - drain_before_ns) /
                                  static_cast<double>(stretch.end_ns - stretch.begin_ns);
      stretch.measure.pool_mib = MemoryOfMib(session_->run_dir());
    }
    if (mode == WatchMode::kProfiler) profiler_->Set(false);
    return stretch;
  }

  static void Sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ThrowIfInterrupted();
  }

  const OverheadConfig& config_;
  const OverheadWorkload& workload_;
  bool attached_;
  int number_;
  fs::path folder_;
  Random order_;
  std::unique_ptr<cluster::Cluster> cluster_;  // outlives what runs on it
  std::unique_ptr<collect::Session> session_;
  std::unique_ptr<ProfilerSwitch> profiler_;
  std::map<std::string, std::string> environment_;
  std::unique_ptr<launch::Workload> engine_;
};

/// Attached and not attached starts of one workload, in random order within each pair.
std::vector<std::pair<bool, int>> StartOrder(const OverheadConfig& config,
                                             const OverheadWorkload& workload) {
  Random random(config.seed, "starts of " + workload.name);
  std::vector<std::pair<bool, int>> order;
  for (int pair = 0; pair < workload.starts; ++pair) {
    const bool attached_first = random.Bernoulli(.5);
    order.emplace_back(attached_first, pair);
    order.emplace_back(!attached_first, pair);
  }
  return order;
}

}  // namespace

double MedianOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNaN;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

OverheadMeasures MeasureOverhead(
    const OverheadConfig& config, const fs::path& scratch, double limit_s,
    const std::function<void(double seconds, const std::string& note)>& progress) {
  OverheadMeasures measures;
  const int64_t begin_ns = MonotonicNs();
  const auto elapsed_s = [&] { return static_cast<double>(MonotonicNs() - begin_ns) / 1e9; };
  bool cut = false;
  const auto over = [&] { return cut = cut || (limit_s > 0 && elapsed_s() > limit_s); };
  for (const OverheadWorkload& workload : config.workloads) {
    for (const auto& [attached, number] : StartOrder(config, workload)) {
      if (over()) break;
      const std::string note =
          fmt::format("{}, start {} {}", workload.name, number + 1, attached ? "attached" : "bare");
      progress(elapsed_s(), note);
      try {
        EngineStart start(config, workload, attached, number, scratch);
        for (const int64_t concurrency : workload.concurrency) {
          const auto found = start.Run(static_cast<int>(concurrency), over, [&] {
            progress(elapsed_s(), fmt::format("{}, concurrency {}", note, concurrency));
          });
          measures.stretches.insert(measures.stretches.end(), found.begin(), found.end());
        }
      } catch (const DeviceError& error) {  // what the other starts have measured stands
        measures.notes.push_back(fmt::format("{}: {}", note, error.what()));
      }
    }
  }
  if (measures.stretches.empty() && !measures.notes.empty())
    throw DeviceError(measures.notes.front());
  if (cut) {
    measures.notes.push_back(fmt::format(
        "the limit of {:.0f} s ended the run early: what is missing stands in n", limit_s));
  }
  return measures;
}

}  // namespace teller::experiment
