#include "src/cli/publish_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/core/text_table.h"
#include "src/experiment/publish.h"

namespace teller::cli {
namespace {

experiment::PublishOptions Resolve(const PublishCommandOptions& options) {
  experiment::PublishOptions resolved{.output = options.output,
                                      .budget = {.train = options.train,
                                                 .validation = options.validation,
                                                 .test = options.test,
                                                 .held_out = options.set,
                                                 .healthy_pool = options.healthy_pool}};
  for (const auto& path : options.experiments)
    resolved.experiments.push_back({.config = path, .scale = options.scale});
  for (const std::string& text : options.held_out) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw ConfigError(fmt::format("--held-out '{}': expected NAME=EXPERIMENT", text));
    resolved.held_out.emplace_back(
        text.substr(0, equals), experiment::RunExperimentOptions{.config = text.substr(equals + 1),
                                                                 .scale = options.scale});
  }
  return resolved;
}

void PrintJson(const experiment::PublishedSet& set) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const auto& run : set.runs) {
    runs.push_back({{"file", run.file},
                    {"engine", run.engine},
                    {"role", run.role},
                    {"steps", run.steps},
                    {"forests", run.forests},
                    {"bytes", run.bytes}});
  }
  fmt::print("{}\n",
             nlohmann::ordered_json{{"folder", set.folder.string()}, {"runs", runs}}.dump(1));
}

void PrintTable(const experiment::PublishedSet& set) {
  struct Sum {
    int64_t runs = 0, steps = 0, forests = 0, positive = 0, bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  int64_t bytes = 0;
  for (const auto& run : set.runs) {
    Sum& sum = sums[{run.role, run.engine}];
    ++sum.runs;
    sum.steps += run.steps;
    sum.forests += run.forests;
    sum.positive += run.positive;
    sum.bytes += run.bytes;
    bytes += run.bytes;
  }
  TextTable table({"role", "engine", "runs", "steps", "positive", "forests", "MB"});
  for (const auto& [key, sum] : sums) {
    table.AddRow({key.first, key.second, std::to_string(sum.runs), std::to_string(sum.steps),
                  std::to_string(sum.positive), std::to_string(sum.forests),
                  fmt::format("{:.1f}", static_cast<double>(sum.bytes) / 1e6)});
  }
  fmt::print("{}{}: {:.1f} MB\n", table.ToText(), set.folder.string(),
             static_cast<double>(bytes) / 1e6);
}

}  // namespace

void AddPublishCommand(CLI::App& app) {
  auto options = std::make_shared<PublishCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "publish", "Pack the recorded runs of experiments into a data set (docs/dataset.md)");
  command
      ->add_option("experiments", options->experiments,
                   "Experiment files, recorded by 'teller run'")
      ->required();
  command->add_option("--held-out", options->held_out, "NAME=EXPERIMENT: a test set of its own")
      ->allow_extra_args(false);
  command->add_option("--scale", options->scale, "The scale that 'teller run' was given");
  command->add_option("--output", options->output, "Folder, empty or absent")
      ->capture_default_str();
  command->add_option("--train", options->train, "Whole forests kept of the training runs")
      ->capture_default_str();
  command->add_option("--validation", options->validation, "The same of validation runs")
      ->capture_default_str();
  command->add_option("--test", options->test, "The same of test runs")->capture_default_str();
  command->add_option("--set", options->set, "The same of each held-out set")
      ->capture_default_str();
  command->add_option("--healthy-pool", options->healthy_pool, "Further healthy ones of test runs")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { RunPublish(*options); });
}

void RunPublish(const PublishCommandOptions& options) {
  const experiment::PublishedSet set = experiment::Publish(Resolve(options));
  options.json ? PrintJson(set) : PrintTable(set);
}

}  // namespace teller::cli
