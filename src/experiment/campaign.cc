#include "src/experiment/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <future>
#include <memory>
#include <utility>

#include "fault_injection/injector.h"
#include "src/cluster/cluster.h"
#include "src/collect/session.h"
#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/random.h"
#include "src/core/version.h"
#include "src/experiment/load_process.h"
#include "src/experiment/machine.h"
#include "src/workload/launch/program.h"
#include "src/workload/launch/workload.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr double kMostBusyShare = .25;                // of all processors, before a campaign
constexpr int64_t kReadyTimeoutNs = 300'000'000'000;  // vLLM starts in 20 s on an idle machine
constexpr int64_t kStopGraceNs = 5'000'000'000;
/// Start, first requests, stop and trace file, in seconds: measured on two cores.
constexpr double kOverheadS = 3.5, kVllmOverheadS = 35;

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
  }
  return quoted + "\"";
}

std::string Describe(const CampaignConfig& campaign, const RunPlan& run) {
  std::string load =
      fmt::format("load:\n  concurrency: {}\n  arguments: [", campaign.load.concurrency);
  for (const std::string& argument : campaign.load.arguments) {
    load += (load.back() == '[' ? "" : ", ") + Quoted(argument);
  }
  load += "]\n";
  const auto indented = [](const std::string& yaml) {
    std::string text = "  ";
    for (const char c : yaml) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
    return text.substr(0, text.find_last_not_of(' ') + 1);
  };
  return fmt::format(
      "schema_version: 1\nrun: {}\nseed: {}\nclock_offset_ns: {}\nlevel: "
      "{}\n{}workload:\n{}faults:\n{}",
      run.index, run.faults.seed, run.clock_offset_ns, campaign.level, load,
      indented(run.workload.ToYaml()), indented(campaign.faults.ToYaml()));
}

cluster::ClusterSpec ClusterOf(const launch::Workload& workload, const RunPlan& plan,
                               const std::string& run_id) {
  cluster::ClusterSpec spec{.run_id = run_id};
  for (int i = 0; i < workload.nodes(); ++i) {
    spec.nodes.push_back(
        {.name = fmt::format("node{}", i), .clock_offset_ns = i == 0 ? 0 : plan.clock_offset_ns});
  }
  return spec;
}

/// Waits for the plan's end, looking after engine, load and signals meanwhile.
void Supervise(std::future<fault_injection::InjectionSummary>& injection,
               fault_injection::Injector& injector, launch::Workload& workload, LoadProcess* load,
               const std::function<void()>& tick) {
  using namespace std::chrono_literals;
  while (injection.wait_for(100ms) != std::future_status::ready) {
    try {
      tick();
      if (load != nullptr) load->CheckRunning();
      if (const auto failure = workload.Failure()) throw DeviceError(*failure);
      ThrowIfInterrupted();
    } catch (...) {
      injector.Stop();
      injection.wait();
      throw;
    }
  }
}

fault_injection::InjectionSummary InjectFaults(
    const RunPlan& plan, cluster::Cluster& cluster, collect::Session& session,
    launch::Workload& workload, LoadProcess* load, const fs::path& folder,
    const std::function<void(double, const std::string&)>& progress) {
  fault_injection::Injector injector(plan.faults, workload.RankProcesses(),
                                     {.run_id = session.run_id(),
                                      .truth_path = folder / "truth.jsonl",
                                      .run_dir = session.run_dir(),
                                      .control = &session.control(),
                                      .cluster = &cluster,
                                      .journal = &cluster.journal()});
  const int64_t begin_ns = MonotonicNs();
  auto injection = std::async(std::launch::async, [&injector] { return injector.Run(); });
  Supervise(injection, injector, workload, load, [&] {
    const double elapsed_s = static_cast<double>(MonotonicNs() - begin_ns) / 1e9;
    progress(elapsed_s / RunSeconds(plan), fmt::format("{} records", session.RecordCount()));
  });
  fault_injection::InjectionSummary summary = injection.get();
  ThrowIfInterrupted();
  if (!summary.completed) {
    throw DeviceError(summary.notes.empty() ? "the fault plan ended early" : summary.notes.front());
  }
  return summary;
}

std::string ListFiles(const fs::path& folder) {
  std::string text;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    text += fmt::format("  {}: {{bytes: {}, xxh3_128: \"{}\"}}\n",
                        Quoted(entry.path().lexically_relative(folder).string()), entry.file_size(),
                        HashFileHex(entry.path()));
  }
  return text;
}

void WriteManifest(const RunPlan& plan, const std::string& run_id,
                   const std::vector<std::string>& limits, const fs::path& folder) {
  const Machine machine = DescribeMachine();
  std::string text = fmt::format(
      "schema_version: \"1.0\"\nrun_id: {}\nseed: {}\nconfig_hash: {}\ncommit: {}\nteller_version: "
      "{}\ncreated_utc: {}\n"
      "host:\n  kernel: {}\n  cpu: {}\n  cores: {}\n  memory_bytes: {}\nlimits: [",
      Quoted(run_id), plan.faults.seed, Quoted(HashHex(plan.config_yaml)), Quoted(Commit()),
      Quoted(Version()), Quoted(UtcNow()), Quoted(machine.kernel), Quoted(machine.cpu),
      machine.cores, machine.memory_bytes);
  for (const std::string& limit : limits) text += (text.back() == '[' ? "" : ", ") + Quoted(limit);
  text += "]\nfiles:\n" + ListFiles(folder);
  WriteFileAtomically(folder / "manifest.yaml", text);
}

}  // namespace

namespace {

/// Ends a plan one mean gap behind its last stretch. An idle tail would be healthy and late in
/// every run, which a classifier that sees nothing but the schedule could tell.
void TrimTail(const fault_injection::Schedule& schedule, fault_injection::Plan& plan) {
  int64_t last_ns = 0;
  for (const fault_injection::PlannedFault& fault : plan.faults)
    last_ns = std::max(last_ns, fault.begin_ns + fault.length_ns);
  if (last_ns == 0) return;
  const double gap_steps =
      static_cast<double>(schedule.gap_steps.first + schedule.gap_steps.second) / 2;
  const auto gap_ns = static_cast<int64_t>(gap_steps * schedule.step_ms * 1e6);
  plan.duration_ns = std::min(plan.duration_ns, last_ns + gap_ns);
}

}  // namespace

namespace {

/// Requests of another run are others; the engine's weights are the same.
uint64_t LoadSeed(uint64_t seed, int index) {
  return Hash64(fmt::format("load {} {}", seed, index)) >> 32;
}

/// A run without a schedule; `fault` is null for a healthy restart.
fault_injection::Plan WholeRun(const fault_injection::Schedule& schedule, uint64_t seed, int index,
                               const ConfigurationFault* fault) {
  fault_injection::Plan plan{.seed = seed,
                             .run = index,
                             .calibration_ns = schedule.calibration_ns,
                             .duration_ns = schedule.duration_ns};
  if (fault == nullptr) return plan;
  plan.faults.push_back({.kind = fault->kind,
                         .level = fault->level,
                         .magnitude = fault->magnitude,
                         .target = {.rank = RankId{0}},
                         .begin_ns = schedule.calibration_ns,
                         .length_ns = schedule.duration_ns - schedule.calibration_ns});
  return plan;
}

/// Healthy restarts and those of every configuration fault; the i-th of each have the same
/// requests.
void PlanConfigurationRuns(const CampaignConfig& campaign,
                           const fault_injection::Schedule& schedule, std::vector<RunPlan>& plans) {
  std::vector<const ConfigurationFault*> faults;
  if (!campaign.configuration.empty()) faults.push_back(nullptr);
  for (const ConfigurationFault& fault : campaign.configuration) faults.push_back(&fault);
  for (int restart = 0; restart < campaign.restarts; ++restart) {
    for (const ConfigurationFault* fault : faults) {
      const int index = static_cast<int>(plans.size());
      RunPlan run{.index = index,
                  .faults = WholeRun(schedule, campaign.seed, index, fault),
                  .workload = fault == nullptr ? campaign.workload : fault->workload,
                  .load_seed = LoadSeed(campaign.seed, campaign.runs + restart)};
      run.config_yaml = Describe(campaign, run);
      plans.push_back(std::move(run));
    }
  }
}

}  // namespace

std::vector<RunPlan> PlanRuns(const CampaignConfig& campaign) {
  const auto workload = launch::Workload::Read(campaign.workload);
  const auto schedule = fault_injection::ReadSchedule(campaign.faults, workload->ranks());
  std::vector<RunPlan> plans;
  for (fault_injection::Plan& faults :
       fault_injection::MakePlans(schedule, campaign.seed, campaign.runs)) {
    const int index = static_cast<int>(plans.size());
    TrimTail(schedule, faults);
    Random random(campaign.seed, fmt::format("clock offset {}", index));
    // Every third run and so on, so that the share holds for any number of runs.
    const bool is_offset = std::floor((index + 1) * campaign.clock_offset_share + 1e-9) >
                           std::floor(index * campaign.clock_offset_share + 1e-9);
    const double offset_s = is_offset ? random.Uniform(.1, 1) * campaign.clock_offset_s : 0;
    const auto offset_ns = static_cast<int64_t>(offset_s * 1e9);
    RunPlan run{.index = index,
                .clock_offset_ns = offset_ns,
                .faults = std::move(faults),
                .workload = campaign.workload,
                .load_seed = LoadSeed(campaign.seed, index)};
    run.config_yaml = Describe(campaign, run);
    plans.push_back(std::move(run));
  }
  PlanConfigurationRuns(campaign, schedule, plans);
  return plans;
}

void CheckCampaignAvailable(const CampaignConfig& campaign) {
  const auto workload = launch::Workload::Read(campaign.workload);
  workload->CheckAvailable();
  launch::FindProgram("teller-load");
  collect::FindAgentLibrary();
  if (const double busy = MeasureBusyShare(); busy > kMostBusyShare) {
    LogWarning(fmt::format(
        "other work uses {:.0f} % of the processors: ranks will wait for it, and healthy "
        "steps will look like faults; record a campaign on an idle machine",
        100 * busy));
  }
}

double RunSeconds(const RunPlan& plan) {
  const bool vllm = plan.workload.Get("kind").AsString() == "vllm";
  return static_cast<double>(plan.faults.duration_ns) / 1e9 + (vllm ? kVllmOverheadS : kOverheadS);
}

void RecordRun(const CampaignConfig& campaign, const RunPlan& plan, const std::string& run_id,
               const fs::path& folder,
               const std::function<void(double, const std::string&)>& progress) {
  fs::create_directories(folder / "logs");
  WriteFileAtomically(folder / "config.yaml", plan.config_yaml);
  std::unique_ptr<cluster::Cluster> cluster;  // outlives the engine on it
  const auto workload = launch::Workload::Read(plan.workload);
  cluster = cluster::Cluster::Create(ClusterOf(*workload, plan, run_id));
  const auto session = collect::Session::Start({.output = folder / "trace.h5",
                                                .run_dir = cluster->run_dir(),
                                                .run_id = run_id,
                                                .workload = workload->kind(),
                                                .config_yaml = plan.config_yaml,
                                                .level = collect::ParseLevel(campaign.level),
                                                .perturb = true});
  progress(0, "starting the engine");
  workload->Start(*cluster, {.environment = session->Environment(),
                             .log_folder = folder / "logs",
                             .seed = plan.faults.seed});
  for (std::size_t i = 0; i < cluster->size(); ++i) {
    for (const char* stream : {"stdout", "stderr"}) {
      const std::string name = fmt::format("{}.{}.log", cluster->node(i).name(), stream);
      session->AddLogFile(cluster->node(i).name(), "logs/" + name, folder / "logs" / name);
    }
  }
  workload->WaitReady(kReadyTimeoutNs);
  std::unique_ptr<LoadProcess> load;
  if (const auto endpoint = workload->endpoint()) {
    load = std::make_unique<LoadProcess>(campaign.load, *endpoint, *cluster, plan.load_seed,
                                         folder / "load.jsonl", folder / "logs");
  }
  const auto summary =
      InjectFaults(plan, *cluster, *session, *workload, load.get(), folder, progress);
  // While the load drains, batches shrink and nothing is injected: steps that a schedule alone
  // would tell as healthy.
  session->SetLevel(collect::Level::kOff);
  if (load) load->Stop();
  workload->Stop(kStopGraceNs);
  progress(.95, "writing the trace");
  session->Finish();
  if (session->RecordCount() == 0)
    throw DeviceError("nothing was recorded: the agent was not loaded by the engine");
  for (const std::string& note : summary.notes) LogWarning(fmt::format("run {}: {}", run_id, note));
  WriteManifest(plan, run_id, cluster->limits(), folder);
}

}  // namespace teller::experiment
