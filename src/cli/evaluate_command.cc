#include "src/cli/evaluate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"
#include "src/core/interrupt.h"
#include "src/core/progress.h"
#include "src/model/model_loader.h"

namespace teller::cli {

void AddEvaluateCommand(CLI::App& app) {
  auto options = std::make_shared<EvaluateCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Run a trained model over encoded runs and write its predictions");
  command->add_option("-m,--model", options->model, "Folder that 'teller train' made")->required();
  command->add_option("--tokens", options->tokens, "Encoded runs (tokens.h5)")->required();
  command->add_option("-o,--output", options->output, "The predictions file to write (.h5)")
      ->required();
  command->add_option("--method", options->method, "Name of the method in tables")
      ->capture_default_str();
  command->add_flag("--force", options->force, "Overwrite the output");
  command->callback([options] { RunEvaluate(*options); });
}

void RunEvaluate(const EvaluateCommandOptions& options) {
  for (const std::string& path : options.tokens)
    RequireRegularFile(path);  // before torch is loaded
  const nlohmann::json request = {{"model", options.model},
                                  {"tokens", options.tokens},
                                  {"output", options.output},
                                  {"method", options.method},
                                  {"force", options.force}};
  const auto library = model::ModelLibrary::Open();
  Progress progress("predicting", static_cast<int64_t>(options.tokens.size()), "runs");
  library.Predict(request.dump(), [&](int64_t done, int64_t, const std::string&) {
    progress.Update(done);
    return !Interrupted();
  });
  fmt::print("wrote {}\n", options.output);
}

}  // namespace teller::cli
