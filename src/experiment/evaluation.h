#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/experiment/cell.h"
#include "src/experiment/estimate.h"
#include "src/experiment/split.h"

namespace teller::experiment {

/// Prior at which headline rows stand: the published fault share.
inline constexpr double kHeadlinePrior = .43;
/// Priors of docs/protocol.md, section 4.
inline const std::vector<double> kPriors = {.5, kHeadlinePrior, .1, .05, .01, .001};

/// One method on the one test set, all its seeds.
struct MethodResult {
  std::string method;           ///< its name in tables
  nlohmann::ordered_json keys;  ///< further row keys: 'mode', 'vocabulary', 'inputs'
  std::vector<SeedResult> seeds;
};

/// Joins one seed's predictions with the truth of validation and test runs and chooses the
/// thresholds; a given `fixed_threshold` stands for all priors instead (dummies, whose scores are
/// their answers).
SeedResult MakeSeedResult(std::span<const RunTruth> validation, std::span<const RunTruth> test,
                          const dataset::PredictionsFile& predictions,
                          std::optional<double> fixed_threshold = {});

/// What E1 and compression need of a run, so that its tokens need not stay in memory.
struct RunSummary {
  RunTruth truth;
  int64_t forest_nodes = 0, forest_tokens = 0, slice_nodes = 0;  ///< over scored steps
  int64_t scored_steps = 0;
  int64_t cut_short = 0;  ///< scored steps with more tokens than the model can take
  int64_t slices = 0;     ///< all steps with a forest, scored or not
  int64_t exact = 0;      ///< of them, slices that decode exactly and whose times add up
};
/// `length`: tokens of a step that the model can take.
RunSummary Summarize(const dataset::TokensFile& tokens, std::size_t length);

/// E2, E2_priors, E2_kinds, E2_confusion (the last of `main_method`).
std::vector<Cell> MainComparison(std::span<const MethodResult> methods,
                                 const std::string& main_method);

/// What E0 needs. All methods are scored against their own truth: the permuted one against permuted
/// labels.
struct LeakControlInputs {
  MethodResult permuted, schedule_only, shape_only, injection_prior, model;
};
std::vector<Cell> LeakControls(const LeakControlInputs& inputs);

/// E1 and E1_kinds.
std::vector<Cell> DataStatistics(std::span<const RunSummary> runs, const Split& split);

/// One point of the trade-off: a vocabulary's compression on the test runs and what was scored with
/// it.
struct TradeOffPoint {
  MethodResult result;
  int64_t entries = 0;
  bool exhausted = false;
  std::vector<RunSummary> test;   ///< with this vocabulary
  int64_t slices = 0, exact = 0;  ///< of all runs, training runs too (RunSummary)
};
/// One line for every table: '4 test runs, 96 stretches, 5230 steps (1400 positive), 2 training
/// seeds'.
std::string TestSetLine(std::span<const RunTruth> test, std::size_t seeds);

/// What must hold and does not, a line each: per kind the model's PR-AUC at levels 2-5 against the
/// dummies', its operators against the injection prior, the controls of E0.
std::vector<std::string> UnmetExpectations(std::span<const Cell> cells,
                                           const std::string& main_method);

/// E3, the published rows behind ours.
std::vector<Cell> TradeOff(std::span<const TradeOffPoint> points);

}  // namespace teller::experiment
