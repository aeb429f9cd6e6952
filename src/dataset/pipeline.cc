#include "src/dataset/pipeline.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <unordered_map>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/progress.h"
#include "src/dataset/baseline_file.h"
#include "src/dataset/slices_file.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/steps_schema.h"
#include "src/dataset/tokens_file.h"
#include "src/dataset/vocabulary_file.h"
#include "src/localize/localizer.h"

namespace teller::dataset {
namespace {

using Path = std::filesystem::path;
using reconstruct::StepForest;

std::pair<std::string, std::string> InputOf(const Path& path) {
  return {path.filename().string(), HashFileHex(path)};
}

bool IsCalibration(const StepLabel& label) { return (label.reasons & kReasonCalibration) != 0; }
bool IsHealthy(const StepLabel& label) {
  return label.status == LabelStatus::kNegative && label.stretch < 0;
}

/// A run reduced to the steps that a baseline is fitted on, so that all training runs fit into
/// memory.
struct ThinnedRun {
  reconstruct::RunForest run;
  localize::TrainingRun training;
};

/// Every so-manieth of `chosen`, at most `most`.
std::vector<std::size_t> Thin(const std::vector<std::size_t>& chosen, std::size_t most) {
  std::vector<std::size_t> kept;
  const std::size_t stride = (chosen.size() + most - 1) / std::max<std::size_t>(1, most);
  for (std::size_t i = 0; i < chosen.size(); i += stride) kept.push_back(chosen[i]);
  return kept;
}

std::unique_ptr<ThinnedRun> ThinRun(StepsFile file, int64_t max_nodes, int calibration_steps) {
  std::vector<std::size_t> healthy, calibration;
  int64_t nodes = 0;
  for (std::size_t s = 0; s < file.run.steps.size(); ++s) {
    if (!file.forest[s] || !IsHealthy(file.labels[s])) continue;
    healthy.push_back(s);
    nodes += static_cast<int64_t>(file.run.steps[s].nodes.size());
    if (IsCalibration(file.labels[s])) calibration.push_back(s);
  }
  const int64_t steps_that_fit =
      nodes == 0 ? 1
                 : std::max<int64_t>(1, max_nodes * static_cast<int64_t>(healthy.size()) / nodes);
  auto thinned = std::make_unique<ThinnedRun>();
  std::set<std::size_t> kept;
  for (const std::size_t s : Thin(healthy, static_cast<std::size_t>(steps_that_fit)))
    kept.insert(s);
  const std::set<std::size_t> fitted = kept;
  for (const std::size_t s :
       Thin(calibration, static_cast<std::size_t>(std::max(1, calibration_steps)))) {
    kept.insert(s);
  }
  for (const std::size_t s : kept) {
    thinned->run.steps.push_back(std::move(file.run.steps[s]));
    thinned->training.healthy.push_back(fitted.contains(s));
    thinned->training.calibration.push_back(IsCalibration(file.labels[s]));
  }
  thinned->run.run_id = file.run.run_id;
  thinned->run.symbols = std::move(file.run.symbols);
  thinned->training.run = &thinned->run;
  thinned->training.clock_error_ns = ClockErrorNs(file);
  return thinned;
}

std::vector<const StepForest*> CalibrationSteps(const StepsFile& file) {
  std::vector<const StepForest*> steps;
  for (std::size_t s = 0; s < file.run.steps.size(); ++s) {
    if (file.forest[s] && IsCalibration(file.labels[s])) steps.push_back(&file.run.steps[s]);
  }
  return steps;
}

SliceStep CutStep(const StepForest& forest, localize::Localizer& localizer,
                  const slice::SliceOptions& options) {
  SliceStep step;
  step.engine_step = forest.engine_step;
  step.suspects = localizer.Localize(forest);
  step.slice = slice::CutSlice(forest, step.suspects, options);
  for (const slice::SliceNode& kept : step.slice.nodes) {
    const auto& node = forest.nodes[Index(kept.node)];
    step.context.push_back(
        {node.symbol, node.track, node.layer, step.suspects.node_residual[Index(kept.node)]});
  }
  step.suspects.node_residual.clear();
  return step;
}

/// The sequences of several runs over one symbol table.
class Corpus {
 public:
  explicit Corpus(tpe::Mode mode) : mode_(mode) {}

  void AddFile(const Path& path) {
    if (SchemaNameOf(path) == kStepsSchema.name) {
      const StepsFile file = ReadSteps(path);
      BeginRun(file.run.symbols.Strings());
      for (std::size_t s = 0; s < file.run.steps.size(); ++s) {
        if (file.forest[s]) Add(WholeStep(file.run.steps[s]));
      }
    } else {
      const SlicesFile file = ReadSlices(path);
      BeginRun(file.symbols);
      for (const SliceStep& step : file.steps) Add(step);
    }
  }
  std::vector<std::string> Symbols() const { return symbols_.Strings(); }

  std::vector<tpe::Sequence> sequences;

 private:
  static std::string SchemaNameOf(const Path& path) {
    return h5::SchemaName(h5::File::Open(path).root());
  }
  void BeginRun(const std::vector<std::string>& symbols) {
    run_symbols_ = static_cast<uint32_t>(symbols.size());
    number_.clear();
    for (const std::string& symbol : SequenceSymbols(symbols)) {
      number_.push_back(static_cast<uint32_t>(Index(symbols_.Intern(symbol))));
    }
  }
  void Add(const SliceStep& step) {
    for (tpe::Sequence& sequence : SliceSequences(step, mode_, run_symbols_)) {
      for (tpe::Atom& atom : sequence) atom.symbol = number_[atom.symbol];
      sequences.push_back(std::move(sequence));
    }
  }

  tpe::Mode mode_;
  StringInterner symbols_;
  std::vector<uint32_t> number_;  // by sequence symbol of the run at hand
  uint32_t run_symbols_ = 0;
};

std::vector<RankId> RanksOf(const StepsFile& file) {
  std::set<RankId> ranks;
  for (const StepForest& step : file.run.steps) ranks.insert(step.ranks.begin(), step.ranks.end());
  return {ranks.begin(), ranks.end()};
}

std::vector<std::string> LocalizerNames(int suspects) {
  std::vector<std::string> names{"score", "minus_log10_p", "wait_z", "undecided"};
  for (int k = 1; k <= suspects; ++k) {
    const std::string number = std::to_string(k);
    names.push_back("z_" + number);
    names.push_back("log_ratio_" + number);
    names.push_back("excess_share_" + number);
  }
  return names;
}

std::vector<float> LocalizerColumns(const localize::StepSuspects& suspects, int count,
                                    int64_t step_ns) {
  std::vector<float> columns{suspects.score, -std::log10(std::max(suspects.p_value, 1e-9f)),
                             suspects.wait_z, suspects.undecided ? 1.0f : 0.0f};
  for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
    if (k >= suspects.candidates.size()) {
      columns.insert(columns.end(), 3, 0.0f);
      continue;
    }
    const localize::Candidate& candidate = suspects.candidates[k];
    const auto observed = static_cast<double>(candidate.observed_ns);
    const auto expected = static_cast<double>(candidate.expected_ns);
    columns.push_back(candidate.z);
    columns.push_back(static_cast<float>(std::log((observed + 1000) / (expected + 1000))));
    columns.push_back(static_cast<float>((observed - expected) /
                                         static_cast<double>(std::max<int64_t>(1, step_ns))));
  }
  return columns;
}

void AddLogs(const StepForest& forest, const SliceStep& step, std::span<const RankId> ranks,
             StepTokens& tokens) {
  for (const uint32_t line : step.slice.logs) {
    if (line >= forest.logs.size()) {
      throw DataError("step " + std::to_string(step.engine_step) +
                      ": the slice is of another forest; cut it again from these steps");
    }
    const reconstruct::StepLogLine& log = forest.logs[line];
    const auto found = std::find(ranks.begin(), ranks.end(), log.rank);
    tokens.log_text.push_back(log.text);
    // A line of no known rank is told of the first.
    tokens.log_rank.push_back(found == ranks.end() ? uint16_t{0}
                                                   : static_cast<uint16_t>(found - ranks.begin()));
  }
}

void CheckSameRun(const StepsFile& steps, const SlicesFile& slices, const Path& path) {
  if (steps.run.run_id != slices.run_id || steps.run.symbols.Strings() != slices.symbols) {
    throw DataError(path.string() + ": slices of run '" + slices.run_id + "', expected '" +
                    steps.run.run_id + "'; cut them from these steps");
  }
}

}  // namespace

void FitBaselineStage(std::span<const Path> steps, const Path& output,
                      const BaselineStageOptions& options, bool force) {
  std::vector<std::unique_ptr<ThinnedRun>> thinned;
  std::vector<localize::TrainingRun> runs;
  BaselineFile file;
  Progress progress("baseline", static_cast<int64_t>(steps.size()), "runs");
  const int64_t nodes_a_run =
      options.fit.max_nodes / std::max<int64_t>(1, static_cast<int64_t>(steps.size()));
  for (const Path& path : steps) {
    ThrowIfInterrupted();
    file.inputs.push_back(InputOf(path));
    thinned.push_back(ThinRun(ReadSteps(path), nodes_a_run, options.calibration_steps));
    runs.push_back(thinned.back()->training);
    progress.Add(1);
  }
  file.baseline = localize::FitBaseline(runs, options.fit);
  WriteBaseline(output, file, force);
}

void CutSlicesStage(const Path& steps, const Path& baseline, const Path& output,
                    const SlicesStageOptions& options, bool force) {
  const StepsFile run = ReadSteps(steps);
  const BaselineFile healthy = ReadBaseline(baseline);
  SlicesFile file;
  file.run_id = run.run.run_id;
  file.options = options.slice;
  file.calibrated = options.calibrate;
  file.symbols = run.run.symbols.Strings();
  file.inputs = {InputOf(steps), InputOf(baseline)};
  localize::RunScale scale;
  if (options.calibrate) {
    localize::Localizer plain(healthy.baseline, run.run.symbols);
    scale = plain.MeasureScale(CalibrationSteps(run));
  }
  localize::Localizer localizer(healthy.baseline, run.run.symbols, std::move(scale),
                                {.clock_error_ns = ClockErrorNs(run)});
  Progress progress("slices of " + file.run_id, static_cast<int64_t>(run.run.steps.size()),
                    "steps");
  for (std::size_t s = 0; s < run.run.steps.size(); ++s) {
    ThrowIfInterrupted();
    progress.Add(1);
    if (run.forest[s]) file.steps.push_back(CutStep(run.run.steps[s], localizer, options.slice));
  }
  WriteSlices(output, file, force);
}

void TrainVocabularyStage(std::span<const Path> files, const Path& output,
                          const tpe::TrainOptions& options, bool force) {
  Corpus corpus(options.mode);
  VocabularyFile file;
  file.options = options;
  Progress progress("vocabulary", static_cast<int64_t>(files.size()), "runs");
  for (const Path& path : files) {
    ThrowIfInterrupted();
    file.inputs.push_back(InputOf(path));
    corpus.AddFile(path);
    progress.Add(1);
  }
  std::sort(file.inputs.begin(), file.inputs.end());
  file.sequences = corpus.sequences.size();
  file.vocabulary = tpe::Train(corpus.sequences, corpus.Symbols(), options);
  WriteVocabulary(output, file, force);
}

void EncodeTokensStage(const Path& steps, const Path& slices, const Path& vocabulary,
                       const Path& output, const TokensStageOptions& options, bool force) {
  const StepsFile run = ReadSteps(steps);
  const SlicesFile cut = ReadSlices(slices);
  const VocabularyFile words = ReadVocabulary(vocabulary);
  CheckSameRun(run, cut, slices);
  TokensFile file;
  file.run_id = run.run.run_id;
  file.engine = run.engine;
  file.mode = tpe::ModeName(words.vocabulary.mode);
  file.barriers = BarriersName(options.barriers);
  file.vocabulary_hash = VocabularyHash(words.vocabulary);
  file.vocabulary_size = static_cast<uint32_t>(words.vocabulary.entries.size());
  file.symbols = cut.symbols;
  file.number_names = run.number_names;
  file.localizer_names = LocalizerNames(cut.options.suspects);
  file.inputs = {InputOf(steps), InputOf(slices), InputOf(vocabulary)};
  const std::vector<RankId> ranks = RanksOf(run);
  for (const RankId rank : ranks) file.ranks.push_back(static_cast<int32_t>(rank));
  std::unordered_map<int64_t, std::size_t> position;
  for (std::size_t s = 0; s < run.run.steps.size(); ++s) {
    position.emplace(run.run.steps[s].engine_step, s);
  }
  Tokenizer tokenizer(words.vocabulary, cut.symbols, options.barriers,
                      options.seed ^ Hash64(run.run.run_id));
  for (const SliceStep& step : cut.steps) {
    ThrowIfInterrupted();
    const auto found = position.find(step.engine_step);
    if (found == position.end()) {
      throw DataError(slices.string() + ": step " + std::to_string(step.engine_step) +
                      " is not in " + steps.string());
    }
    const StepForest& forest = run.run.steps[found->second];
    StepTokens tokens = tokenizer.Tokenize(forest, step, ranks);
    tokens.numbers = run.numbers[found->second];
    tokens.localizer =
        LocalizerColumns(step.suspects, cut.options.suspects, forest.end_ns - forest.begin_ns);
    tokens.label = run.labels[found->second];
    AddLogs(forest, step, ranks, tokens);
    file.steps.push_back(std::move(tokens));
  }
  WriteTokens(output, file, force);
}

}  // namespace teller::dataset
