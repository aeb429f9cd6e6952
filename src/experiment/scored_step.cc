#include "src/experiment/scored_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/core/error.h"

namespace teller::experiment {
namespace {

using PredictionIndex = std::map<std::pair<std::string, int64_t>, const dataset::StepPrediction*>;

PredictionIndex IndexPredictions(const dataset::PredictionsFile& predictions) {
  PredictionIndex index;
  for (const dataset::StepPrediction& step : predictions.steps) {
    if (!index.emplace(std::pair(step.run_id, step.engine_step), &step).second) {
      throw DataError(fmt::format("predictions of '{}': step {} of run {} stands twice",
                                  predictions.method, step.engine_step, step.run_id));
    }
  }
  return index;
}

std::size_t ArgMax(const std::vector<float>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

ScoredStep Join(const RunTruth& run, std::size_t position,
                const dataset::StepPrediction& prediction, const dataset::PredictionsFile& file,
                bool names_operators) {
  ScoredStep step{.run_id = run.run_id,
                  .engine_step = run.engine_steps[position],
                  .label = run.labels[position]};
  step.score = prediction.score;
  step.probability = prediction.probability;
  step.operators = prediction.operators;
  step.names_operators = names_operators;
  step.rank_count = static_cast<int32_t>(run.ranks.size());
  if (!prediction.kind_probability.empty()) {
    const std::size_t best = ArgMax(prediction.kind_probability);
    step.predicted_kind = best < file.kinds.size() ? file.kinds[best] : "unknown";
  }
  if (!prediction.rank_probability.empty()) {
    const std::size_t best = ArgMax(prediction.rank_probability);
    if (best < run.ranks.size()) step.predicted_rank = RankId{run.ranks[best]};
  }
  return step;
}

/// Numbers the contiguous parts of a run: a new one begins whenever the stretch changes.
std::vector<int32_t> Blocks(const RunTruth& run) {
  std::vector<int32_t> blocks(run.labels.size(), 0);
  for (std::size_t i = 1; i < run.labels.size(); ++i) {
    blocks[i] = blocks[i - 1] + (run.labels[i].stretch != run.labels[i - 1].stretch ? 1 : 0);
  }
  return blocks;
}

}  // namespace

std::vector<ScoredStep> JoinPredictions(std::span<const RunTruth> truth,
                                        const dataset::PredictionsFile& predictions) {
  const PredictionIndex index = IndexPredictions(predictions);
  const bool names_operators =
      std::any_of(predictions.steps.begin(), predictions.steps.end(),
                  [](const auto& step) { return !step.operators.empty(); });
  std::vector<ScoredStep> joined;
  for (const RunTruth& run : truth) {
    const std::vector<int32_t> blocks = Blocks(run);
    for (std::size_t i = 0; i < run.labels.size(); ++i) {
      if (!IsScored(run.labels[i])) continue;
      const auto found = index.find({run.run_id, run.engine_steps[i]});
      if (found == index.end()) {
        throw DataError(fmt::format(
            "predictions of '{}': nothing is said of step {} of run {}; all methods must be scored "
            "on the same steps",
            predictions.method, run.engine_steps[i], run.run_id));
      }
      joined.push_back(Join(run, i, *found->second, predictions, names_operators));
      joined.back().block = blocks[i];
    }
  }
  return joined;
}

bool IsPositive(const ScoredStep& step) {
  return step.label.status == dataset::LabelStatus::kPositive;
}

StepRefs Select(std::span<const ScoredStep> steps, const PositiveFilter& filter) {
  StepRefs selected;
  for (const ScoredStep& step : steps) {
    const dataset::StepLabel& label = step.label;
    const bool wanted = (filter.view == dataset::View::kNone || label.view == filter.view) &&
                        label.level >= filter.level_low && label.level <= filter.level_high &&
                        (filter.kind.empty() || label.kind == filter.kind);
    if (!IsPositive(step) || wanted) selected.push_back(&step);
  }
  return selected;
}

std::vector<Sample> ScoreSamples(std::span<const ScoredStep* const> steps) {
  std::vector<Sample> samples;
  samples.reserve(steps.size());
  for (const ScoredStep* step : steps) samples.push_back({step->score, IsPositive(*step)});
  return samples;
}

std::vector<Sample> ProbabilitySamples(std::span<const ScoredStep* const> steps) {
  std::vector<Sample> samples;
  samples.reserve(steps.size());
  for (const ScoredStep* step : steps) samples.push_back({step->probability, IsPositive(*step)});
  return samples;
}

}  // namespace teller::experiment
