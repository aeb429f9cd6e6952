#include "src/cli/diagnose_command.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/dataset/baseline_file.h"
#include "src/dataset/build_steps.h"
#include "src/dataset/pipeline.h"
#include "src/diagnose/report.h"
#include "src/h5/schema.h"
#include "src/interop/import_file.h"
#include "src/model/model_loader.h"

namespace teller::cli {
namespace {

namespace fs = std::filesystem;

/// A folder for stages in between, gone with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "teller-diagnose-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw DeviceError(name + ": cannot make a temporary folder");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// 'steps', 'trace', ... of a file of ours; empty for anything else.
std::string SchemaOf(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};
  try {
    return h5::SchemaName(h5::File::Open(path).root());
  } catch (const DataError&) {
    return {};  // no HDF5: the importers say what it is
  }
}

dataset::StepsFile ReadInput(const std::vector<std::string>& inputs, const ScratchFolder& scratch) {
  const fs::path first = inputs.front();
  if (inputs.size() == 1 && fs::exists(first / "trace.h5")) return dataset::BuildSteps(first);
  const std::string schema = inputs.size() == 1 ? SchemaOf(first) : std::string();
  if (schema == "steps") return dataset::ReadSteps(first);
  if (schema == "trace") return dataset::BuildStepsOfTrace(first);
  const interop::ImportLog log =
      interop::ImportToFile({inputs.begin(), inputs.end()}, scratch / "trace.h5", false, {});
  for (const std::string& note : log.notes()) LogInfo(note);
  return dataset::BuildStepsOfTrace(scratch / "trace.h5");
}

/// The run's steps without a forest but for the `top` with the highest scores and the calibration
/// window.
dataset::StepsFile ThinForModel(dataset::StepsFile steps,
                                const std::vector<localize::StepSuspects>& suspects,
                                std::size_t top) {
  std::vector<std::size_t> order(suspects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return suspects[a].score > suspects[b].score;
  });
  for (std::size_t i = top; i < order.size(); ++i) {
    const std::size_t s = order[i];
    if ((steps.labels[s].reasons & dataset::kReasonCalibration) != 0) continue;
    steps.forest[s] = 0;
    auto& forest = steps.run.steps[s];
    forest.nodes.clear();
    forest.edges.clear();
    forest.logs.clear();
  }
  return steps;
}

/// Slices, encodes and predicts the top steps.
dataset::PredictionsFile AskModel(const DiagnoseCommandOptions& options,
                                  const dataset::StepsFile& steps,
                                  const std::vector<localize::StepSuspects>& suspects,
                                  const ScratchFolder& scratch) {
  dataset::WriteSteps(scratch / "steps.h5",
                      ThinForModel(steps, suspects, static_cast<std::size_t>(options.top)));
  dataset::CutSlicesStage(scratch / "steps.h5", options.baseline, scratch / "slices.h5");
  dataset::EncodeTokensStage(scratch / "steps.h5", scratch / "slices.h5", options.vocabulary,
                             scratch / "tokens.h5");
  const nlohmann::json request = {{"model", options.model},
                                  {"tokens", {(scratch / "tokens.h5").string()}},
                                  {"output", (scratch / "predictions.h5").string()}};
  model::ModelLibrary::Open().Predict(
      request.dump(), [](int64_t, int64_t, const std::string&) { return !Interrupted(); });
  return dataset::ReadPredictions(scratch / "predictions.h5");
}

void CheckOptions(const DiagnoseCommandOptions& options) {
  if (options.model.empty()) return;
  if (options.baseline.empty() || options.vocabulary.empty()) {
    throw ConfigError(
        "teller diagnose: --model needs the --baseline and the --vocabulary that it was trained "
        "with");
  }
}

/// Against the given baseline, else across the run's own steps; none where the run is too short for
/// that.
std::optional<std::vector<localize::StepSuspects>> Localize(const DiagnoseCommandOptions& options,
                                                            const dataset::StepsFile& steps,
                                                            std::vector<std::string>& notes) {
  if (!options.baseline.empty()) {
    return diagnose::LocalizeRun(steps, dataset::ReadBaseline(options.baseline).baseline);
  }
  auto suspects = diagnose::LocalizeByContrast(steps);
  notes.emplace_back(
      suspects
          ? "no --baseline: steps are compared with the run's own quieter steps, which is weaker; "
            "what is slow in most steps is not seen"
          : "no --baseline, and the run has too few steps to be compared with itself: nothing was "
            "judged");
  return suspects;
}

diagnose::RunDiagnosis Diagnose(const DiagnoseCommandOptions& options) {
  const ScratchFolder scratch;
  const dataset::StepsFile steps = ReadInput(options.inputs, scratch);
  std::vector<std::string> notes;
  const auto suspects = Localize(options, steps, notes);
  if (!suspects) {
    diagnose::RunDiagnosis nothing;
    nothing.run_id = steps.run.run_id;
    nothing.notes = notes;
    return nothing;
  }
  std::optional<dataset::PredictionsFile> predictions;
  if (!options.model.empty()) {
    predictions = AskModel(options, steps, *suspects, scratch);
    notes.push_back(fmt::format(
        "the model saw the localiser's top {} steps and the calibration window", options.top));
  }
  diagnose::RunDiagnosis run = diagnose::DiagnoseRun(
      steps, *suspects, predictions ? &*predictions : nullptr,
      {.false_share = options.false_share, .contrast = options.baseline.empty()});
  run.notes.insert(run.notes.begin(), notes.begin(), notes.end());
  return run;
}

}  // namespace

void AddDiagnoseCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DiagnoseCommandOptions>();
  CLI::App* command =
      app.add_subcommand("diagnose", "Say which steps of a run are abnormal, where and why");
  command
      ->add_option(
          "inputs", options->inputs,
          "steps.h5, a trace file, a run folder, or traces of others as 'teller import' takes them")
      ->required();
  command->add_option(
      "--baseline", options->baseline,
      "What healthy steps look like (baseline.h5); without it the run is compared with itself");
  command->add_option("--model", options->model,
                      "A trained model, asked about the most suspicious steps");
  command->add_option("--vocabulary", options->vocabulary,
                      "The vocabulary of the model (vocabulary.json)");
  command->add_option("--top", options->top, "Steps that the model sees")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--false-share", options->false_share,
                   "Of the steps called abnormal, at most this share may be healthy")
      ->check(CLI::Range(0.0001, 0.5))
      ->capture_default_str();
  command->add_option("--shown", options->shown, "Abnormal steps printed")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print docs/design.md section 12's JSON");
  command->add_flag("--fail-on-finding", options->fail_on_finding,
                    "Exit code 3 where something abnormal was found");
  command->callback([options, &exit_code] { exit_code = RunDiagnose(*options); });
}

int RunDiagnose(const DiagnoseCommandOptions& options) {
  CheckOptions(options);
  const diagnose::RunDiagnosis run = Diagnose(options);
  if (options.json) {
    fmt::print("{}\n", diagnose::ReportJson(run));
  } else {
    fmt::print("{}", diagnose::ReportText(run, static_cast<std::size_t>(options.shown)));
  }
  const bool found = run.verdict == diagnose::Verdict::kAbnormal;
  return static_cast<int>(found && options.fail_on_finding ? ExitCode::kCheckFailed
                                                           : ExitCode::kDone);
}

}  // namespace teller::cli
