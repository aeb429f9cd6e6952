#include "src/cli/paper_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/experiment/report.h"
#include "src/experiment/run_experiment.h"
#include "src/experiment/table_layout.h"

namespace teller::cli {
namespace {
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// What stands between the stored results and a complete set of tables.
struct Gaps {
  std::vector<std::string> missing_tables;
  int64_t stale = 0;
};

/// Tables of what faults did (F1, ...) and of diagnosis (E0, ...) belong to different experiments.
template <typename Item>
bool IsOfFaults(const Item& item) {
  return item.table.starts_with('F');
}

Gaps FindGaps(const std::vector<experiment::Cell>& cells) {
  Gaps gaps;
  const bool of_faults = std::any_of(cells.begin(), cells.end(), IsOfFaults<experiment::Cell>);
  for (const experiment::TableLayout& layout : experiment::Layouts()) {
    if (IsOfFaults(layout) != of_faults) continue;
    bool found = false;
    for (const experiment::Cell& cell : cells)
      found = found || (cell.table == layout.table && cell.value);
    if (!found) gaps.missing_tables.push_back(layout.table);
  }
  for (const experiment::Cell& cell : cells) gaps.stale += cell.stale ? 1 : 0;
  return gaps;
}

void PrintGaps(const Gaps& gaps, const fs::path& config) {
  for (const std::string& table : gaps.missing_tables)
    fmt::print("missing: table {} has no number\n", table);
  if (gaps.stale > 0) {
    fmt::print(
        "stale: {} cells were computed by another configuration or code version; run 'teller run "
        "{}'\n",
        gaps.stale, config.string());
  }
}

}  // namespace

void AddPaperCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PaperOptions>();
  CLI::App* command = app.add_subcommand(
      "paper", "Turn stored results into tables (Markdown, CSV, LaTeX) and figures");
  command->add_option("experiments", options->experiments,
                      "Experiment files (default: experiments/quickstart.yaml)");
  command->add_option("--set", options->overrides, "The overrides that 'teller run' was given")
      ->allow_extra_args(false);
  command->add_option("--scale", options->scale, "The scale that 'teller run' was given");
  command->add_option("--results", options->results, "Results folder (default: results/NAME)");
  command
      ->add_option("--output", options->output,
                   "Folder that gets NAME/{tables,trade_off.svg,report.html}")
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "Print the cells as JSON instead of the written files");
  command->callback([options, &exit_code] { exit_code = RunPaper(*options); });
}

int RunPaper(const PaperOptions& options) {
  std::vector<fs::path> configs = options.experiments;
  if (configs.empty()) configs = {"experiments/quickstart.yaml"};
  bool complete = true;
  Json cells = Json::array();
  for (const fs::path& config : configs) {
    const experiment::ExperimentResult result =
        experiment::LoadResults({.config = config,
                                 .overrides = options.overrides,
                                 .scale = options.scale,
                                 .output = options.results});
    const auto written =
        experiment::WriteReport(result.metrics, options.output / result.metrics.experiment);
    const Gaps gaps = FindGaps(result.metrics.cells);
    complete = complete && gaps.missing_tables.empty() && gaps.stale == 0;
    for (const experiment::Cell& cell : result.metrics.cells) cells.push_back(ToJson(cell));
    if (options.json) continue;
    for (const fs::path& path : written) fmt::print("{}\n", path.string());
    PrintGaps(gaps, config);
  }
  if (options.json) fmt::print("{}\n", Json{{"cells", std::move(cells)}}.dump(1));
  return static_cast<int>(complete ? ExitCode::kDone : ExitCode::kCheckFailed);
}

}  // namespace teller::cli
