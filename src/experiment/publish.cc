#include "src/experiment/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/progress.h"
#include "src/interop/packed_steps.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

/// A run that goes into the set.
struct Source {
  FinishedRun run;
  std::string experiment;
};

std::vector<Source> Sources(const PublishOptions& options) {
  std::vector<Source> sources;
  for (const RunExperimentOptions& experiment : options.experiments) {
    for (FinishedRun& run : FinishedRuns(experiment))
      sources.push_back({std::move(run), experiment.config.stem().string()});
  }
  for (const auto& [name, experiment] : options.held_out) {
    for (FinishedRun& run : FinishedRuns(experiment)) {
      run.role = name;
      sources.push_back({std::move(run), experiment.config.stem().string()});
    }
  }
  return sources;
}

/// A role's forests, shared out evenly to its runs: half in stretches, half healthy.
ForestBudget BudgetOf(const std::string& role, int64_t runs, const PublishBudget& budget) {
  const auto whole = role == "train"        ? budget.train
                     : role == "validation" ? budget.validation
                     : role == "test"       ? budget.test
                                            : budget.held_out;
  const int64_t share = whole / (2 * runs);
  return {.faulty = share,
          .healthy = share + (role == "test" ? budget.healthy_pool / runs : 0),
          .calibration = budget.calibration};
}

PublishedRun PackRun(const Source& source, const ForestBudget& budget, const std::string& file,
                     const fs::path& folder) {
  dataset::StepsFile steps = dataset::ReadSteps(source.run.steps);
  const std::vector<uint8_t> keep = ChooseForests(steps, budget);
  PublishedRun run{.file = file,
                   .run_id = steps.run.run_id,
                   .engine = steps.engine,
                   .role = source.run.role,
                   .steps = static_cast<int64_t>(keep.size()),
                   .forests = std::count(keep.begin(), keep.end(), uint8_t{1})};
  run.positive = std::count_if(steps.labels.begin(), steps.labels.end(), [](const auto& label) {
    return label.status == dataset::LabelStatus::kPositive;
  });
  interop::WritePackedSteps(folder / file, std::move(steps), keep);
  run.bytes = static_cast<int64_t>(fs::file_size(folder / file));
  run.hash = HashFileHex(folder / file);
  return run;
}

}  // namespace

PublishedSet Publish(const PublishOptions& options) {
  std::error_code error;
  if (!fs::is_empty(options.output, error) && !error) {
    throw ConfigError(fmt::format("publish: '{}' is not empty; choose another --output",
                                  options.output.string()));
  }
  const std::vector<Source> sources = Sources(options);
  std::map<std::string, int64_t> runs_of;
  for (const Source& source : sources) ++runs_of[source.run.role];
  fs::create_directories(options.output);
  PublishedSet set{
      .folder = options.output, .name = options.output.filename().string(), .runs = {}};
  std::vector<std::string> lines;
  Progress progress("publish", static_cast<int64_t>(sources.size()), "runs");
  for (const Source& source : sources) {
    ThrowIfInterrupted();
    const std::string file = fmt::format("{}-{}.h5.xz", source.experiment, source.run.name);
    set.runs.push_back(
        PackRun(source, BudgetOf(source.run.role, runs_of.at(source.run.role), options.budget),
                file, options.output));
    lines.push_back(fmt::format("{}: {} of {}, seed {}, configuration {}", file, source.run.name,
                                source.experiment, source.run.seed, source.run.config_hash));
    progress.Add(1);
  }
  WriteManifest(set, lines);
  return set;
}

}  // namespace teller::experiment
