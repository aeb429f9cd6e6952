#include "src/experiment/pipeline_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/random.h"
#include "src/core/version.h"
#include "src/dataset/predictions_file.h"
#include "src/dataset/slices_file.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/tokens_file.h"
#include "src/dataset/vocabulary_file.h"
#include "src/experiment/baselines.h"
#include "src/experiment/evaluation.h"
#include "src/model/model_loader.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {
using dataset::PredictionsFile;

constexpr const char* kMainMethod = "teller";
constexpr std::size_t kGuesses = 5;
constexpr double kDummyThreshold = .5;  // between their answers 0 and 1

/// Names of the files that PredictBaselines writes and ComputeMetrics reads.
constexpr const char* kOperatorMad = "operator_mad.h5";
constexpr const char* kStepTime = "step_time.h5";
constexpr const char* kLocalizer = "localizer.h5";
constexpr const char* kAlwaysPositive = "always_positive.h5";
constexpr const char* kInjectionPrior = "injection_prior.h5";
constexpr const char* kScheduleOnly = "schedule_only.h5";
constexpr const char* kShapeOnly = "shape_only.h5";
std::string StratifiedName(std::size_t index) { return fmt::format("stratified_{}.h5", index); }

model::ModelLibrary::ProgressCall Forward(const Report& report) {
  return [&report](int64_t done, int64_t total, const std::string& note) {
    report(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0, note);
    return !Interrupted();
  };
}

std::vector<std::string> Strings(const Paths& paths) { return {paths.begin(), paths.end()}; }

/// The localiser's own answer: its score, its candidates' operators, the first candidate's rank.
void AppendLocalizer(const dataset::SlicesFile& slices, const BaselineRun& run,
                     PredictionsFile& file) {
  std::map<int64_t, const dataset::SliceStep*> by_step;
  for (const dataset::SliceStep& step : slices.steps) by_step[step.engine_step] = &step;
  for (const BaselineStep& step : run.steps) {
    dataset::StepPrediction& prediction = file.steps.emplace_back();
    prediction.run_id = run.run_id;
    prediction.engine_step = step.engine_step;
    prediction.probability = std::numeric_limits<float>::quiet_NaN();
    prediction.rank_probability.assign(run.ranks.size(), 0);
    const auto found = by_step.find(step.engine_step);
    if (found == by_step.end()) continue;  // a step without a forest: nothing is suspicious
    const dataset::SliceStep& sliced = *found->second;
    prediction.score = sliced.suspects.score;
    for (const localize::Candidate& candidate : sliced.suspects.candidates) {
      if (prediction.operators.size() == kGuesses) break;
      const auto node =
          std::find_if(sliced.slice.nodes.begin(), sliced.slice.nodes.end(),
                       [&](const slice::SliceNode& kept) { return kept.node == candidate.node; });
      if (node == sliced.slice.nodes.end()) continue;
      const auto index = static_cast<std::size_t>(node - sliced.slice.nodes.begin());
      prediction.operators.push_back(
          {.rank = candidate.rank,
           .symbol = slices.symbols.at(Index(sliced.context[index].symbol)),
           .node = candidate.node,
           .probability = candidate.z});
    }
    if (sliced.suspects.candidates.empty()) continue;
    const auto rank =
        std::find(run.ranks.begin(), run.ranks.end(), sliced.suspects.candidates.front().rank);
    if (rank != run.ranks.end())
      prediction.rank_probability[static_cast<std::size_t>(rank - run.ranks.begin())] = 1;
  }
}

/// Summaries of encoded runs; each file is read once, however many rows stand on it.
class Summaries {
 public:
  explicit Summaries(std::size_t length) : length_(length) {}

  std::vector<RunSummary> Of(const Paths& tokens) {
    std::vector<RunSummary> runs;
    for (const fs::path& path : tokens) {
      auto [found, fresh] = known_.try_emplace(path);
      if (fresh) found->second = Summarize(dataset::ReadTokens(path), length_);
      runs.push_back(found->second);
    }
    return runs;
  }

 private:
  std::size_t length_;
  std::map<fs::path, RunSummary> known_;
};

std::vector<RunTruth> TruthOf(std::span<const RunSummary> runs) {
  std::vector<RunTruth> truth;
  for (const RunSummary& run : runs) truth.push_back(run.truth);
  return truth;
}

/// Truth of the runs that are scored, split into validation and test.
struct ScoredTruth {
  std::vector<RunTruth> validation, test;

  ScoredTruth(std::span<const RunSummary> runs, std::size_t train, std::size_t validation_count)
      : validation(TruthOf(runs.subspan(train, validation_count))),
        test(TruthOf(runs.subspan(train + validation_count))) {}
};

MethodResult Score(const std::string& method, nlohmann::ordered_json keys, const ScoredTruth& truth,
                   const Paths& predictions, std::optional<double> fixed_threshold = {}) {
  MethodResult result{.method = method, .keys = std::move(keys)};
  for (const fs::path& path : predictions) {
    result.seeds.push_back(MakeSeedResult(truth.validation, truth.test,
                                          dataset::ReadPredictions(path), fixed_threshold));
  }
  return result;
}

nlohmann::ordered_json KeysOf(const ScoredPredictions& scored, const tpe::Vocabulary& vocabulary) {
  nlohmann::ordered_json keys{{"mode", scored.vocabulary.mode}};
  const bool by_cut = scored.vocabulary.cut > 0;
  if (by_cut) keys["wanted_cut"] = scored.vocabulary.cut;
  keys["vocabulary"] =
      by_cut ? static_cast<int>(vocabulary.entries.size()) : scored.vocabulary.size;
  keys["inputs"] = scored.inputs;
  return keys;
}

TradeOffPoint MakePoint(const ScoredPredictions& scored, const MetricsInputs& inputs,
                        Summaries& summaries) {
  const std::vector<RunSummary> runs = summaries.Of(scored.tokens);
  const ScoredTruth truth(runs, inputs.train, inputs.validation);
  const dataset::VocabularyFile vocabulary = dataset::ReadVocabulary(scored.vocabulary_file);
  TradeOffPoint point{.result = Score(kMainMethod, KeysOf(scored, vocabulary.vocabulary), truth,
                                      scored.predictions),
                      .entries = static_cast<int64_t>(vocabulary.vocabulary.entries.size()),
                      .exhausted = vocabulary.vocabulary.exhausted};
  for (const RunSummary& run : runs) {
    point.slices += run.slices;
    point.exact += run.exact;
  }
  point.test.assign(runs.begin() + static_cast<std::ptrdiff_t>(inputs.train + inputs.validation),
                    runs.end());
  return point;
}

std::vector<MethodResult> MainMethods(const MetricsInputs& inputs, const ScoredTruth& truth) {
  Paths stratified;
  for (std::size_t i = 0; i < inputs.main.predictions.size(); ++i) {
    stratified.push_back(inputs.baselines / StratifiedName(i));
  }
  std::vector<MethodResult> methods;
  methods.push_back(
      Score(kMainMethod,
            KeysOf(inputs.main, dataset::ReadVocabulary(inputs.main.vocabulary_file).vocabulary),
            truth, inputs.main.predictions));
  methods.push_back(Score("localiser alone", {}, truth, {inputs.baselines / kLocalizer}));
  methods.push_back(Score("operator median/MAD", {}, truth, {inputs.baselines / kOperatorMad}));
  methods.push_back(Score("step time / bucket median", {}, truth, {inputs.baselines / kStepTime}));
  methods.push_back(
      Score(kAlwaysPositiveName, {}, truth, {inputs.baselines / kAlwaysPositive}, kDummyThreshold));
  methods.push_back(Score(kStratifiedName, {}, truth, stratified, kDummyThreshold));
  return methods;
}

LeakControlInputs Controls(const MetricsInputs& inputs, const ScoredTruth& truth,
                           Summaries& summaries, MethodResult model) {
  const std::vector<RunSummary> permuted_runs = summaries.Of(inputs.permuted_tokens);
  const ScoredTruth permuted(permuted_runs, inputs.train, inputs.validation);
  return {
      .permuted = Score("labels permuted within run", {}, permuted, inputs.permuted_predictions),
      .schedule_only = Score("schedule only", {}, truth, {inputs.baselines / kScheduleOnly}),
      .shape_only = Score("slice shape only", {}, truth, {inputs.baselines / kShapeOnly}),
      .injection_prior =
          Score("injection-prior guess", {}, truth, {inputs.baselines / kInjectionPrior}),
      .model = std::move(model)};
}

void Append(std::vector<Cell>& cells, std::vector<Cell> more) {
  cells.insert(cells.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

/// What a reader must know before believing a number.
std::vector<std::string> Notes(const std::vector<Cell>& cells, const Split& split) {
  std::vector<std::string> notes;
  if (split.test.size() < kRunsForInterval) {
    notes.push_back(
        fmt::format("{} test runs: brackets are the range over runs, not intervals "
                    "(docs/protocol.md, section 2)",
                    split.test.size()));
  }
  for (std::string& unmet : UnmetExpectations(cells, kMainMethod))
    notes.push_back(std::move(unmet));
  return notes;
}

}  // namespace

void TrainModel(const Training& training, const fs::path& output, const Report& report) {
  const nlohmann::json request = {{"train", Strings(training.train)},
                                  {"validation", Strings(training.validation)},
                                  {"output", output.string()},
                                  {"seed", training.seed},
                                  {"config", nlohmann::json::parse(training.config_json)}};
  model::ModelLibrary::Open().Train(request.dump(), Forward(report));
}

void PredictWithModel(const fs::path& model, const Paths& tokens, const fs::path& output,
                      const Report& report) {
  const nlohmann::json request = {{"model", model.string()},
                                  {"tokens", Strings(tokens)},
                                  {"output", output.string()},
                                  {"method", kMainMethod},
                                  {"scored_only", true}};
  model::ModelLibrary::Open().Predict(request.dump(), Forward(report));
}

void PermuteLabels(const fs::path& tokens, uint64_t seed, const fs::path& output) {
  dataset::TokensFile file = dataset::ReadTokens(tokens);
  std::vector<std::size_t> scored;
  for (std::size_t i = 0; i < file.steps.size(); ++i) {
    if (IsScored(file.steps[i].label)) scored.push_back(i);
  }
  std::vector<std::size_t> shuffled = scored;
  Random(seed, "permuted labels of " + file.run_id).Shuffle(std::span(shuffled));
  std::vector<dataset::StepLabel> labels;
  for (const dataset::StepTokens& step : file.steps) labels.push_back(step.label);
  for (std::size_t i = 0; i < scored.size(); ++i) {
    dataset::StepLabel& label = file.steps[scored[i]].label;
    label = labels[shuffled[i]];
    label.hit_nodes.clear();  // nodes of another step's forest
  }
  dataset::WriteTokens(output, file);
}

void PredictBaselines(const BaselineFiles& files, const fs::path& folder, const Report& report) {
  OperatorTable operators;
  std::vector<BaselineRun> runs;
  PredictionsFile localizer{.method = "localiser alone"};
  for (std::size_t i = 0; i < files.steps.size(); ++i) {
    report(static_cast<double>(i) / static_cast<double>(files.steps.size()),
           fmt::format("run {}", i));
    runs.push_back(ExtractRun(dataset::ReadSteps(files.steps[i]), operators));
    AddShapes(dataset::ReadTokens(files.tokens[i]), runs.back());
    if (i >= files.train)
      AppendLocalizer(dataset::ReadSlices(files.slices[i]), runs.back(), localizer);
  }
  const std::span<const BaselineRun> all(runs);
  const BaselineInputs inputs{all.first(files.train), all.subspan(files.train), &operators};
  dataset::WritePredictions(folder / kLocalizer, localizer);
  dataset::WritePredictions(folder / kOperatorMad, OperatorMad(inputs));
  dataset::WritePredictions(folder / kStepTime, StepTimeRatio(inputs));
  dataset::WritePredictions(folder / kAlwaysPositive, AlwaysPositive(inputs));
  dataset::WritePredictions(folder / kInjectionPrior, InjectionPrior(inputs));
  dataset::WritePredictions(folder / kScheduleOnly, ScheduleOnly(inputs));
  dataset::WritePredictions(folder / kShapeOnly, ShapeOnly(inputs));
  for (std::size_t i = 0; i < files.seeds.size(); ++i) {
    dataset::WritePredictions(folder / StratifiedName(i), Stratified(inputs, files.seeds[i]));
  }
}

void ComputeMetrics(const MetricsInputs& inputs, const std::string& experiment,
                    const std::string& config_hash, const fs::path& output, const Report& report) {
  const Split split = ReadSplit(inputs.splits);
  Summaries summaries(inputs.length);
  const std::vector<RunSummary> runs = summaries.Of(inputs.main.tokens);
  const ScoredTruth truth(runs, inputs.train, inputs.validation);
  MetricsFile metrics{.experiment = experiment, .config_hash = config_hash};
  report(.1, "E2");
  const std::vector<MethodResult> methods = MainMethods(inputs, truth);
  report(.4, "E0");
  metrics.cells = LeakControls(Controls(inputs, truth, summaries, methods.front()));
  Append(metrics.cells, DataStatistics(runs, split));
  Append(metrics.cells, MainComparison(methods, kMainMethod));
  report(.6, "E3");
  std::vector<TradeOffPoint> points;
  for (const ScoredPredictions& row : inputs.sweep)
    points.push_back(MakePoint(row, inputs, summaries));
  Append(metrics.cells, TradeOff(points));
  metrics.provenance = {{"teller_version", Version()},
                        {"commit", Commit()},
                        {"split_seed", split.seed},
                        {"test_runs", split.test},
                        {"validation_runs", split.validation},
                        {"train_runs", split.train},
                        {"main_vocabulary", inputs.main.vocabulary.Name()},
                        {"test_set", TestSetLine(truth.test, inputs.main.predictions.size())}};
  metrics.notes = Notes(metrics.cells, split);
  WriteMetrics(output, metrics);
}

void WriteSplitOf(const Paths& steps, const Paths& tokens, std::size_t train,
                  std::size_t validation, uint64_t seed, const fs::path& output) {
  std::vector<RunIdentity> runs;
  Split split{.seed = seed};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    runs.push_back({dataset::ReadTokens(tokens[i]).run_id, HashFileHex(steps[i])});
    auto& part = i < train ? split.train : i < train + validation ? split.validation : split.test;
    part.push_back(runs.back().run_id);
  }
  CheckSplit(split, runs);
  WriteSplit(output, split);
}

}  // namespace teller::experiment
