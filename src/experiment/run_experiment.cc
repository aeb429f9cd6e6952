#include "src/experiment/run_experiment.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/experiment/campaign.h"
#include "src/experiment/pipeline_stages.h"
#include "src/experiment/report.h"
#include "src/model/model_loader.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

fs::path FolderOf(const RunExperimentOptions& options, const ExperimentConfig& config) {
  return options.output.empty() ? fs::path("results") / config.name : options.output;
}

CostHistory HistoryOf(const StageStore& store) {
  return [&store](const std::string& kind) { return store.MeanTime(kind); };
}

/// Stages with their states, read without taking the lock.
struct Looked {
  ExperimentConfig config;
  StageStore store;
  Pipeline pipeline;
  std::vector<StageState> states;

  explicit Looked(const RunExperimentOptions& options)
      : config(LoadExperiment(options.config, options.overrides, options.scale)),
        store(StageStore::ForReading(FolderOf(options, config))),
        pipeline(BuildPipeline(config, HistoryOf(store))),
        states(LookUp(pipeline.plan, store)) {}
};

StageSummary& SummaryOf(const std::string& kind, std::vector<StageSummary>& kinds) {
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const auto& summary) { return summary.kind == kind; });
  return found != kinds.end() ? *found : kinds.emplace_back(StageSummary{.kind = kind});
}

bool AnyOpen(const std::vector<StageId>& stages, const std::vector<StageState>& states) {
  return std::any_of(stages.begin(), stages.end(), [&](StageId stage) {
    return !states[static_cast<std::size_t>(stage)].cached();
  });
}

/// Opens the model library in a child, so that torch never enters this process, which forks. Throws
/// UnavailableError with the loader's line.
void CheckModelLibrary() {
  int ends[2];
  if (::pipe(ends) != 0) throw DeviceError("no pipe to check the model library with");
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    std::string failure;
    try {
      model::ModelLibrary::Open();
    } catch (const Error& error) {
      failure = error.what();
    }
    const bool told =
        ::write(ends[1], failure.data(), failure.size()) == static_cast<ssize_t>(failure.size());
    ::_exit(told && failure.empty() ? 0 : 1);
  }
  ::close(ends[1]);
  // Loading torch takes seconds on a busy machine: a Ctrl-C does not wait for it.
  for (pollfd answer{ends[0], POLLIN, 0}; child > 0 && ::poll(&answer, 1, 100) <= 0;) {
    if (Interrupted()) ::kill(child, SIGKILL);
  }
  std::string failure(4096, '\0');
  failure.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, ::read(ends[0], failure.data(), failure.size()))));
  ::close(ends[0]);
  int status = 0;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
  ThrowIfInterrupted();
  if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw UnavailableError(failure.empty() ? "the model library cannot be opened: its process died"
                                           : failure);
  }
}

/// What an experiment needs must be there before hours of work: engine, load generator and agent
/// where a run is still to be recorded, the model library where something is still to be trained.
void CheckAvailable(const ExperimentConfig& config, const Pipeline& pipeline,
                    const StageStore& store) {
  const std::vector<StageState> states = LookUp(pipeline.plan, store);
  if (config.campaign && AnyOpen(pipeline.runs, states)) CheckCampaignAvailable(*config.campaign);
  if (AnyOpen(pipeline.models, states)) CheckModelLibrary();
}

}  // namespace

DryRun PlanExperiment(const RunExperimentOptions& options) {
  const Looked looked(options);
  DryRun dry{.experiment = looked.config.name, .folder = looked.store.root()};
  double exclusive_s = 0, shared_s = 0;
  for (std::size_t i = 0; i < looked.states.size(); ++i) {
    const Stage& stage = looked.pipeline.plan.stages[i];
    const bool cached = looked.states[i].cached();
    StageSummary& summary = SummaryOf(stage.kind, dry.kinds);
    ++summary.stages;
    summary.cached += cached ? 1 : 0;
    summary.open_cost_s += cached ? 0 : stage.cost_s;
    summary.exclusive = stage.exclusive;
    if (!cached) (stage.exclusive ? exclusive_s : shared_s) += stage.cost_s;
    dry.stages.push_back(
        {stage.kind, stage.name, looked.states[i].key.value_or(""), cached, stage.cost_s});
  }
  dry.open_cost_s = exclusive_s + shared_s / std::max(1, options.jobs);
  return dry;
}

ExperimentResult RunExperiment(const RunExperimentOptions& options) {
  // One thread a process: two OpenMP threads on two busy cores cost up to six times
  // (docs/design.md, section 3).
  ::setenv("OMP_NUM_THREADS", "1", 0);
  const ExperimentConfig config = LoadExperiment(options.config, options.overrides, options.scale);
  const StageStore store(FolderOf(options, config));
  const Pipeline pipeline = BuildPipeline(config, HistoryOf(store));
  CheckAvailable(config, pipeline, store);
  const std::vector<StageState> before = LookUp(pipeline.plan, store);
  const std::vector<StageState> states =
      Execute(pipeline.plan, store, {.jobs = options.jobs, .label = config.name});
  ExperimentResult result{.folder = store.root(), .report = store.root() / "report.html"};
  for (const StageState& state : before) ++(state.cached() ? result.cached : result.made);
  const fs::path stored =
      states[static_cast<std::size_t>(pipeline.metrics)].record->folder / kMetricsFile;
  result.metrics = ReadMetrics(stored);
  WriteFileAtomically(store.root() / kMetricsFile, ReadFile(stored), true);
  WriteReport(result.metrics, store.root());
  return result;
}

ExperimentResult LoadResults(const RunExperimentOptions& options) {
  const Looked looked(options);
  const fs::path path = looked.store.root() / kMetricsFile;
  if (!fs::is_regular_file(path)) {
    throw DataError(fmt::format("no results of '{}' in '{}'; run 'teller run {}' first",
                                looked.config.name, looked.store.root().string(),
                                options.config.string()));
  }
  ExperimentResult result{.metrics = ReadMetrics(path),
                          .folder = looked.store.root(),
                          .report = looked.store.root() / "report.html"};
  const bool current = looked.states[static_cast<std::size_t>(looked.pipeline.metrics)].cached();
  for (Cell& cell : result.metrics.cells) cell.stale = !current;
  return result;
}

std::vector<FinishedRun> FinishedRuns(const RunExperimentOptions& options) {
  const Looked looked(options);
  if (!looked.config.campaign)
    throw ConfigError(fmt::format("{}: it records no campaign", options.config.string()));
  const RunRoles roles = AssignRoles(looked.config, looked.pipeline.steps.size());
  std::vector<FinishedRun> runs;
  for (std::size_t i = 0; i < looked.pipeline.steps.size(); ++i) {
    const auto stage = static_cast<std::size_t>(looked.pipeline.steps[i]);
    const std::string name = looked.pipeline.plan.stages[stage].name;
    if (!looked.states[stage].cached()) {
      throw DataError(fmt::format("{} of '{}' is not recorded; run 'teller run {}' first", name,
                                  looked.config.name, options.config.string()));
    }
    runs.push_back({.name = name,
                    .steps = looked.states[stage].record->folder / kStepsFile,
                    .role = roles.RoleOf(i),
                    .seed = looked.config.campaign->seed,
                    .config_hash = HashHex(looked.config.canonical)});
  }
  return runs;
}

}  // namespace teller::experiment
