#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/dataset/labels.h"
#include "src/dataset/predictions_file.h"
#include "src/experiment/metrics.h"

namespace teller::experiment {

/// A step's truth beside what one method said of it.
struct ScoredStep {
  std::string run_id;
  int64_t engine_step = 0;
  int32_t block = 0;  ///< contiguous part of the run for resampling: a stretch, or the healthy time
                      ///< before the next
  dataset::StepLabel label;
  double score = 0;
  double probability = 0;      ///< NaN: the method gives none
  std::string predicted_kind;  ///< empty: the method gives none
  std::vector<dataset::OperatorGuess> operators;
  bool names_operators = false;     ///< the method fills the operator head somewhere
  RankId predicted_rank = kNoRank;  ///< kNoRank: the method gives none
  int32_t rank_count = 0;
};

/// Truth of one run, in step order.
struct RunTruth {
  std::string run_id;
  std::vector<int32_t> ranks;
  std::vector<int64_t> engine_steps;
  std::vector<dataset::StepLabel> labels;
};

/// Joins truth and predictions: every scored step of `truth`, in order. One test set: throws
/// DataError where a scored step has no prediction or has two, naming method, run and step.
std::vector<ScoredStep> JoinPredictions(std::span<const RunTruth> truth,
                                        const dataset::PredictionsFile& predictions);

/// Which positives a row is about. The negatives always stay: a view's row = its positives and all
/// negatives.
struct PositiveFilter {
  dataset::View view = dataset::View::kNone;  ///< kNone: both
  int32_t level_low = 1;
  int32_t level_high = 5;
  std::string kind;  ///< empty: all
};

using StepRefs = std::vector<const ScoredStep*>;

StepRefs Select(std::span<const ScoredStep> steps, const PositiveFilter& filter);
bool IsPositive(const ScoredStep& step);

/// Scores, or probabilities, as a yes-or-no question.
std::vector<Sample> ScoreSamples(std::span<const ScoredStep* const> steps);
std::vector<Sample> ProbabilitySamples(std::span<const ScoredStep* const> steps);

}  // namespace teller::experiment
