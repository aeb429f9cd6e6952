#include "src/experiment/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/experiment/baselines.h"
#include "src/experiment/headline_metrics.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;

bool IsDummy(const std::string& method) {
  return method == kAlwaysPositiveName || method == kStratifiedName;
}

}  // namespace

SeedResult MakeSeedResult(std::span<const RunTruth> validation, std::span<const RunTruth> test,
                          const dataset::PredictionsFile& predictions,
                          std::optional<double> fixed_threshold) {
  SeedResult result{
      .seed = predictions.seed, .test = JoinPredictions(test, predictions), .thresholds = {}};
  const std::vector<ScoredStep> held = JoinPredictions(validation, predictions);
  result.thresholds = ChooseThresholds(held, kPriors);
  if (fixed_threshold) {
    for (auto& [prior, threshold] : result.thresholds) threshold = *fixed_threshold;
  }
  return result;
}

RunSummary Summarize(const dataset::TokensFile& tokens, std::size_t length) {
  RunSummary summary{.truth = {.run_id = tokens.run_id, .ranks = tokens.ranks}};
  for (const dataset::StepTokens& step : tokens.steps) {
    summary.truth.engine_steps.push_back(step.engine_step);
    summary.truth.labels.push_back(step.label);
    ++summary.slices;
    summary.exact += step.decodes != 0 && step.times_add_up != 0 ? 1 : 0;
    if (!IsScored(step.label)) continue;
    ++summary.scored_steps;
    summary.cut_short += step.tokens.size() > length ? 1 : 0;
    summary.forest_nodes += step.forest_nodes;
    summary.forest_tokens += step.forest_tokens;
    summary.slice_nodes += step.slice_nodes;
  }
  return summary;
}

std::string TestSetLine(std::span<const RunTruth> test, std::size_t seeds) {
  std::set<std::pair<std::string, int32_t>> stretches;
  int64_t steps = 0, positives = 0;
  for (const RunTruth& run : test) {
    for (const dataset::StepLabel& label : run.labels) {
      if (!IsScored(label)) continue;
      ++steps;
      positives += label.status == LabelStatus::kPositive ? 1 : 0;
      if (label.stretch >= 0) stretches.emplace(run.run_id, label.stretch);
    }
  }
  return fmt::format("{} test runs, {} stretches, {} scored steps ({} positive), {} training seeds",
                     test.size(), stretches.size(), steps, positives, seeds);
}

std::vector<std::string> UnmetExpectations(std::span<const Cell> cells,
                                           const std::string& main_method) {
  std::vector<std::string> unmet;
  std::map<std::string, double> model, dummy;
  for (const Cell& cell : cells) {
    if (cell.table == "E0" && cell.metric == "holds" && cell.value == 0.0) {
      unmet.push_back(
          fmt::format("E0 '{}', {}: does not hold; doubt the tables below until it is explained",
                      cell.row.value("control", ""), cell.row.value("measure", "")));
    }
    if (cell.table == "E3" && cell.metric == "exact" && cell.value && *cell.value < 1) {
      unmet.push_back(fmt::format(
          "E3, {} {}: {:.3g} % of {} slices do not decode exactly, or their times do not add up",
          cell.row.value("mode", ""), cell.row.value("inputs", ""), 100 * (1 - *cell.value),
          cell.n));
    }
    if (cell.table != "E2_kinds" || cell.metric != "pr_auc" || !cell.value) continue;
    const bool claimed = cell.row.value("levels", "") == kClaimedLevels.Name();
    const std::string method = cell.row.value("method", ""), kind = cell.row.value("kind", "");
    if (claimed && method == main_method) model[kind] = *cell.value;
    if (claimed && IsDummy(method)) dummy[kind] = std::max(dummy[kind], *cell.value);
  }
  for (const auto& [kind, pr_auc] : model) {
    if (pr_auc > dummy[kind]) continue;
    unmet.push_back(fmt::format(
        "E2, kind {}, levels 2-5: the model's PR-AUC {:.3f} is not above the better dummy's {:.3f}",
        kind, pr_auc, dummy[kind]));
  }
  return unmet;
}

}  // namespace teller::experiment
