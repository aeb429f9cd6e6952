#include "src/cli/diagnose_command.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/dataset/baseline_file.h"
#include "src/dataset/build_steps.h"
#include "src/dataset/pipeline.h"
#include "src/dataset/steps_schema.h"
#include "src/diagnose/html_report.h"
#include "src/diagnose/report.h"
#include "src/h5/child.h"
#include "src/h5/file.h"
#include "src/h5/schema.h"
#include "src/interop/import_file.h"
#include "src/model/model_loader.h"
#include "src/trace/trace_schema.h"

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

bool IsHdf5(const fs::path& path) {
  constexpr std::string_view kMagic = "\x89HDF\r\n\x1a\n";
  if (!fs::is_regular_file(path)) return false;
  std::string head(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kMagic;
}

/// The file of ours that holds the run: the input itself, or what its import makes in `scratch`.
fs::path FileOf(const std::vector<std::string>& inputs, const ScratchFolder& scratch) {
  const fs::path first = inputs.front();
  if (inputs.size() == 1 && fs::exists(first / "trace.h5")) return first / "trace.h5";
  if (inputs.size() == 1 && IsHdf5(first)) return first;
  const interop::ImportLog log =
      interop::ImportToFile({inputs.begin(), inputs.end()}, scratch / "trace.h5", false, {});
  for (const std::string& note : log.notes()) LogInfo(note);
  return scratch / "trace.h5";
}

dataset::StepsFile ReadRun(const fs::path& file) {
  const std::string schema = h5::SchemaName(h5::File::Open(file).root());
  if (schema == dataset::kStepsSchema.name) return dataset::ReadSteps(file);
  if (schema != trace::kTraceSchema.name) {
    throw DataError(fmt::format(
        "cannot diagnose {}: it is HDF5, but {}; give it a trace or a steps "
        "file",
        file.string(), schema.empty() ? "not a file of ours" : "a '" + schema + "' file"));
  }
  const bool has_truth =
      file.filename() == "trace.h5" && fs::exists(file.parent_path() / "truth.jsonl");
  return has_truth ? dataset::BuildSteps(file.parent_path()) : dataset::BuildStepsOfTrace(file);
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
    steps.labels[s].hit_nodes.clear();
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

/// 'trace.h5', 'folder and 2 more'.
std::string TitleOf(const std::vector<std::string>& inputs) {
  const fs::path first = fs::path(inputs.front()).lexically_normal();
  const std::string name =
      first.has_filename() ? first.filename().string() : first.parent_path().filename().string();
  return inputs.size() == 1 ? name : fmt::format("{} and {} more", name, inputs.size() - 1);
}

/// What the child that reads the run answers.
struct Answer {
  std::string text;  ///< for stdout
  std::string html;  ///< empty where none is wanted
  bool found = false;
};

std::string Pack(const Answer& answer) {
  std::string packed;
  nlohmann::json::to_cbor({{"text", answer.text}, {"html", answer.html}, {"found", answer.found}},
                          packed);
  return packed;
}
Answer Unpack(const std::string& packed) {
  const auto answer = nlohmann::json::from_cbor(packed);
  return {answer["text"], answer["html"], answer["found"]};
}

Answer Diagnose(const DiagnoseCommandOptions& options, const fs::path& file,
                const ScratchFolder& scratch) {
  const dataset::StepsFile steps = ReadRun(file);
  const diagnose::Localization localization =
      options.baseline.empty()
          ? diagnose::LocalizeWithin(steps, options.false_share)
          : diagnose::LocalizeAgainst(steps, dataset::ReadBaseline(options.baseline).baseline,
                                      options.false_share);
  std::optional<dataset::PredictionsFile> predictions;
  if (!options.model.empty())
    predictions = AskModel(options, steps, localization.suspects, scratch);
  diagnose::RunDiagnosis run =
      diagnose::DiagnoseRun(steps, localization, predictions ? &*predictions : nullptr);
  if (predictions) {
    run.notes.push_back(fmt::format(
        "the model saw the localiser's top {} steps and the calibration window", options.top));
  }
  Answer answer{.found = run.verdict == diagnose::Verdict::kAbnormal};
  answer.text = options.json ? diagnose::ReportJson(run) + "\n"
                             : diagnose::ReportText(run, static_cast<std::size_t>(options.shown));
  if (!options.html.empty())
    answer.html = diagnose::ReportHtml(run, steps, {.title = TitleOf(options.inputs)});
  return answer;
}

/// In a child: the file may be anyone's.
Answer DiagnoseInChild(const DiagnoseCommandOptions& options, const fs::path& file,
                       const ScratchFolder& scratch) {
  constexpr int kMoreTime = 4;  // than reading alone
  h5::ChildLimits limits = h5::ChildLimits::ForFile(file);
  limits.cpu_seconds *= kMoreTime;
  limits.wall_seconds *= kMoreTime;
  try {
    return Unpack(h5::RunInChild(file.string(), limits,
                                 [&] { return Pack(Diagnose(options, file, scratch)); }));
  } catch (const DataError&) {
    ThrowIfInterrupted();  // the child dies of the same signal
    throw;
  }
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
  command->add_option("--html", options->html,
                      "Also write a report for a browser to this file: one page, no network");
  command->add_flag("--force", options->force, "Overwrite the --html file");
  command->add_flag("--fail-on-finding", options->fail_on_finding,
                    "Exit code 3 where something abnormal was found");
  command->callback([options, &exit_code] { exit_code = RunDiagnose(*options); });
}

int RunDiagnose(const DiagnoseCommandOptions& options) {
  CheckOptions(options);
  const ScratchFolder scratch;
  std::optional<AtomicFile> page;  // refused before the work is done
  if (!options.html.empty()) page.emplace(options.html, options.force);
  const Answer answer = DiagnoseInChild(options, FileOf(options.inputs, scratch), scratch);
  if (page) {
    std::ofstream(page->path(), std::ios::binary) << answer.html;
    page->Commit();
  }
  std::fputs(answer.text.c_str(), stdout);
  return static_cast<int>(answer.found && options.fail_on_finding ? ExitCode::kCheckFailed
                                                                  : ExitCode::kDone);
}

}  // namespace teller::cli
