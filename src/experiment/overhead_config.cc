#include "src/experiment/overhead_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/core/error.h"

namespace teller::experiment {
namespace {

constexpr std::array<std::string_view, 4> kModes = {"off", "ranges", "full", "profiler"};
constexpr WatchMode kModeValues[] = {WatchMode::kOff, WatchMode::kRanges, WatchMode::kFull,
                                     WatchMode::kProfiler};
constexpr int kFewestBlocks = 3;
constexpr double kProfilerStopS = 4;  // vLLM writes its trace before it answers

WatchMode ReadMode(const config::Node& node) {
  const std::string mode = node.AsChoice(kModes);
  return kModeValues[std::find(kModes.begin(), kModes.end(), mode) - kModes.begin()];
}

OverheadWorkload ReadWorkload(const config::Node& part) {
  OverheadWorkload workload{.workload = part.Get("workload")};
  workload.name = part.Get("name").AsString();
  part.Read("concurrency", workload.concurrency);
  part.Read("starts", workload.starts, 1, 1000);
  part.Read("blocks", workload.blocks, kFewestBlocks, 100'000);
  part.Read("stretch_s", workload.stretch_s, .3, 600);
  part.Read("start_s", workload.start_s, 0, 3600);
  part.Read("load", workload.load);
  if (const auto modes = part.Find("modes")) {
    workload.modes.clear();
    for (const config::Node& mode : modes->Items()) workload.modes.push_back(ReadMode(mode));
  }
  if (std::ranges::find(workload.modes, WatchMode::kOff) == workload.modes.end())
    part.Fail("modes: 'off' is what the others are compared with; add it");
  if (workload.concurrency.empty()) part.Fail("concurrency: expected at least one");
  return workload;
}

/// Where the torch profiler of each vLLM writes, as overrides of its arguments.
std::vector<std::string> ProfilerOverrides(const std::filesystem::path& path,
                                           std::span<const std::string> overrides,
                                           const std::filesystem::path& profiler_folder) {
  std::vector<std::string> all(overrides.begin(), overrides.end());
  const auto workloads = config::Node::Load(path, overrides).Get("workloads").Items();
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (workloads[i].Get("workload").Get("kind").AsString() != "vllm") continue;
    // It takes one profiler: the one that names steps gives way to the one that is measured.
    all.push_back(fmt::format("workloads.{}.workload.annotate=false", i));
    all.push_back(
        fmt::format(R"(workloads.{}.workload.arguments=[--profiler-config, '{{"profiler":"torch",)"
                    R"("torch_profiler_dir":"{}","torch_profiler_with_stack":false,)"
                    R"("torch_profiler_use_gzip":false,"torch_profiler_activities":["CPU"],)"
                    R"("torch_profiler_dump_cuda_time_total":false,"ignore_frontend":true}}'])",
                    i, profiler_folder.string()));
  }
  return all;
}

double SecondsOf(const OverheadWorkload& workload) {
  const bool profiles =
      std::ranges::find(workload.modes, WatchMode::kProfiler) != workload.modes.end();
  const double attached_block = static_cast<double>(workload.modes.size()) * workload.stretch_s +
                                (profiles ? kProfilerStopS : 0);
  const double blocks = workload.blocks * static_cast<double>(workload.concurrency.size());
  return workload.starts * (2 * workload.start_s + blocks * (attached_block + workload.stretch_s));
}

}  // namespace

std::string WatchModeName(WatchMode mode) {
  constexpr const char* kNames[] = {"not attached", "off", "ranges", "full", "torch profiler"};
  return kNames[static_cast<int>(mode)];
}

double OverheadConfig::EstimatedSeconds() const {
  double seconds = 0;
  for (const OverheadWorkload& workload : workloads) seconds += SecondsOf(workload);
  return seconds;
}

void OverheadConfig::KeepOnly(const std::string& workload) {
  std::string names;
  for (const OverheadWorkload& known : workloads) names += (names.empty() ? "" : ", ") + known.name;
  std::erase_if(workloads, [&](const OverheadWorkload& known) { return known.name != workload; });
  if (workloads.empty())
    throw ConfigError(fmt::format("no workload '{}'; there are: {}", workload, names));
}

void OverheadConfig::FitInto(double seconds) {
  for (int step = 0; step < 1000 && EstimatedSeconds() > seconds; ++step) {
    for (OverheadWorkload& workload : workloads) {
      workload.blocks = std::max(kFewestBlocks, static_cast<int>(workload.blocks * .95));
    }
  }
}

OverheadConfig LoadOverhead(const std::filesystem::path& path,
                            std::span<const std::string> overrides,
                            const std::filesystem::path& profiler_folder) {
  const std::vector<std::string> all = ProfilerOverrides(path, overrides, profiler_folder);
  const config::Node node = config::Node::Load(path, all);
  node.Get("schema_version").AsInt(1, 1);
  OverheadConfig config{.name = path.stem().string()};
  node.Read("name", config.name);
  node.Read("question", config.question);
  int64_t seed = 1;
  node.Read("seed", seed, 0);
  config.seed = static_cast<uint64_t>(seed);
  node.Read("settle_s", config.settle_s, 0, 60);
  for (const config::Node& part : node.Get("workloads").Items())
    config.workloads.push_back(ReadWorkload(part));
  if (config.workloads.empty()) node.Fail("workloads: expected at least one");
  config.canonical = config::Node::Load(path, overrides).Canonical();
  return config;
}

}  // namespace teller::experiment
