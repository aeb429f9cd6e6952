#include "src/cli/train_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/config/config.h"
#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/progress.h"
#include "src/core/text_table.h"
#include "src/experiment/model_settings.h"
#include "src/model/manifest.h"
#include "src/model/model_loader.h"

namespace teller::cli {
namespace {

using Json = nlohmann::json;

model::ModelConfig Settings(const TrainCommandOptions& options) {
  const auto node = options.config.empty() ? config::Node::Parse("{}", "--set", options.set)
                                           : config::Node::Load(options.config, options.set);
  if (const auto version = node.Find("schema_version")) version->AsInt(1, 1);
  return experiment::ReadModelSettings(node);
}

Json ReadRequest(const std::string& path) {
  Json request = Json::parse(ReadFile(path), nullptr, false);
  if (!request.is_object() || !request.contains("output") || !request["output"].is_string()) {
    throw ConfigError(path + ": no training request; see docs/schema/model_request.md");
  }
  return request;
}

Json MakeRequest(const TrainCommandOptions& options) {
  if (!options.request.empty()) return ReadRequest(options.request);
  if (options.train.empty() || options.output.empty()) {
    throw ConfigError("teller train: --train and --output are needed (or --request)");
  }
  return {{"train", options.train},
          {"validation", options.validation},
          {"output", options.output},
          {"seed", options.seed},
          {"config", Json::parse(model::ModelConfigJson(Settings(options)))}};
}

void Train(const model::ModelLibrary& library, const Json& request) {
  std::optional<Progress> progress;
  library.Train(request.dump(), [&](int64_t done, int64_t total, const std::string& note) {
    if (!progress) progress.emplace("training", total, "updates");
    progress->Update(done, note);
    return !Interrupted();
  });
}

Json Summary(const model::Manifest& manifest) {
  const auto& losses = manifest.training.losses;
  Json summary = {{"updates", losses.size()},           {"loss_first", losses.front()},
                  {"loss_last", losses.back()},         {"kinds", manifest.kinds},
                  {"counts", manifest.training.counts}, {"notes", manifest.training.notes}};
  if (manifest.calibration.fitted) summary["temperature"] = manifest.calibration.temperature;
  return summary;
}

void Print(const model::Manifest& manifest, const std::string& output) {
  TextTable counts({"training data", "count"});
  for (const auto& [name, count] : manifest.training.counts)
    counts.AddRow({name, std::to_string(count)});
  fmt::print("{}", counts.ToText());
  const auto& losses = manifest.training.losses;
  fmt::print("\n{} updates, loss {:.4f} -> {:.4f}; kinds: {}\n", losses.size(), losses.front(),
             losses.back(), fmt::join(manifest.kinds, ", "));
  if (manifest.calibration.fitted) {
    fmt::print("calibrated on {} validation steps: temperature {:.3f}, offset {:.3f}\n",
               manifest.calibration.steps, manifest.calibration.temperature,
               manifest.calibration.offset);
  }
  fmt::print("wrote {}\n", output);
}

/// What can be said before torch is loaded, which takes seconds.
void CheckPaths(const Json& request) {
  for (const char* runs : {"train", "validation"}) {
    for (const Json& path : request.value(runs, Json::array())) {
      if (path.is_string()) RequireRegularFile(path.get<std::string>());
    }
  }
  const std::filesystem::path output = request["output"].get<std::string>();
  if (std::filesystem::exists(output) && !request.value("force", false))
    throw ConfigError(output.string() + ": exists already; use --force to replace it");
  const std::filesystem::path folder = std::filesystem::absolute(output).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw ConfigError(fmt::format("the folder '{}' does not exist", folder.string()));
}

}  // namespace

void AddTrainCommand(CLI::App& app) {
  auto options = std::make_shared<TrainCommandOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model on encoded runs (tokens.h5)");
  command->add_option("--train", options->train, "Encoded training runs");
  command->add_option(
      "--validation", options->validation,
      "Encoded runs for calibration; without them predictions carry no probability");
  command->add_option("-o,--output", options->output, "Folder to make: model.json and weights.pt");
  command->add_option("-c,--config", options->config,
                      "YAML of the model and its training (docs/schema/model_request.md)");
  command->add_option("--set", options->set,
                      "Override a key, for example --set layers=4 --set modalities.logs=false");
  command->add_option("--seed", options->seed, "Seed of weights, batches and dropout")
      ->capture_default_str();
  command->add_option("--request", options->request,
                      "A request as JSON instead of the options above");
  command->add_flag("--force", options->force,
                    "Replace the output and a checkpoint of another training");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options] { RunTrain(*options); });
}

void RunTrain(const TrainCommandOptions& options) {
  Json request = MakeRequest(options);
  if (options.force) request["force"] = true;
  CheckPaths(request);
  const auto library = model::ModelLibrary::Open();
  Train(library, request);
  const auto output = request["output"].get<std::string>();
  const model::Manifest manifest = model::ReadManifest(output);
  for (const std::string& note : manifest.training.notes) LogWarning(note);
  if (options.json) {
    fmt::print("{}\n", Summary(manifest).dump());
  } else {
    Print(manifest, output);
  }
}

}  // namespace teller::cli
