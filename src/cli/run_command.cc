#include "src/cli/run_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/clock.h"
#include "src/core/text_table.h"
#include "src/experiment/report.h"
#include "src/experiment/run_experiment.h"

namespace teller::cli {
namespace {
using Json = nlohmann::ordered_json;

std::string Seconds(double seconds) { return FormatDuration(static_cast<int64_t>(seconds * 1e9)); }

void PrintDryRun(const experiment::DryRun& dry) {
  TextTable stages({"stage", "name", "key", "state", "cost"});
  for (const auto& line : dry.stages) {
    const char* state = line.cached ? "cached" : line.key.empty() ? "waits for inputs" : "to do";
    stages.AddRow({line.kind, line.name, line.key, state, line.cached ? "" : Seconds(line.cost_s)});
  }
  TextTable kinds({"stage", "count", "cached", "to do", "cost"});
  for (const auto& kind : dry.kinds) {
    kinds.AddRow({kind.kind + (kind.exclusive ? " (one at a time)" : ""),
                  std::to_string(kind.stages), std::to_string(kind.cached),
                  std::to_string(kind.stages - kind.cached), Seconds(kind.open_cost_s)});
  }
  fmt::print("{}\n{}\n{}: {} to do, results in {}\n", stages.ToText(), kinds.ToText(),
             dry.experiment, Seconds(dry.open_cost_s), dry.folder.string());
}

void PrintDryRunJson(const experiment::DryRun& dry) {
  Json stages = Json::array();
  for (const auto& line : dry.stages) {
    stages.push_back({{"kind", line.kind},
                      {"name", line.name},
                      {"key", line.key},
                      {"cached", line.cached},
                      {"cost_s", line.cost_s}});
  }
  const Json json{{"experiment", dry.experiment},
                  {"folder", dry.folder.string()},
                  {"open_cost_s", dry.open_cost_s},
                  {"stages", std::move(stages)}};
  fmt::print("{}\n", json.dump(1));
}

void PrintResult(const experiment::ExperimentResult& result) {
  fmt::print("{}\n{} stages run now, {} were there. Report: {}\n",
             experiment::TextReport(result.metrics), result.made, result.cached,
             result.report.string());
}

void PrintResultJson(const experiment::ExperimentResult& result) {
  Json cells = Json::array();
  for (const experiment::Cell& cell : result.metrics.cells) cells.push_back(ToJson(cell));
  const Json json{{"experiment", result.metrics.experiment},
                  {"report", result.report.string()},
                  {"made", result.made},
                  {"cached", result.cached},
                  {"notes", result.metrics.notes},
                  {"cells", std::move(cells)}};
  fmt::print("{}\n", json.dump(1));
}

}  // namespace

void AddRunCommand(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Run an experiment (experiments/NAME.yaml) and print its tables");
  command->add_option("experiment", options->config, "Experiment file")->required();
  command->add_option("--set", options->overrides, "Override a key: a.b.c=value (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--scale", options->scale,
                      "Lay the keys of 'scales: NAME:' over the file (smoke, small, full)");
  command->add_option("--output", options->output, "Results folder (default: results/NAME)");
  command
      ->add_option("--jobs", options->jobs,
                   "Stages side by side, one thread each; runs are always recorded alone")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_flag("--dry-run", options->dry_run,
                    "List the stages, their cost and what is cached; do nothing");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { RunRun(*options); });
}

void RunRun(const RunOptions& options) {
  const experiment::RunExperimentOptions run{.config = options.config,
                                             .overrides = options.overrides,
                                             .scale = options.scale,
                                             .output = options.output,
                                             .jobs = options.jobs};
  if (options.dry_run) {
    const experiment::DryRun dry = experiment::PlanExperiment(run);
    return options.json ? PrintDryRunJson(dry) : PrintDryRun(dry);
  }
  const experiment::ExperimentResult result = experiment::RunExperiment(run);
  options.json ? PrintResultJson(result) : PrintResult(result);
}

}  // namespace teller::cli
