#include <cmath>

#include "src/experiment/diagnosis_metrics.h"
#include "src/experiment/evaluation.h"
#include "src/experiment/headline_metrics.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;
using Json = nlohmann::ordered_json;

constexpr double kChanceTolerance = .05;

/// A control that must be at chance: its range over runs includes .5, or the value lies near it.
bool IsAtChance(const Estimate& estimate) {
  const bool in_range = estimate.low <= .5 && estimate.high >= .5;
  return in_range || std::abs(estimate.value - .5) <= kChanceTolerance;
}

void AddControl(const std::string& control, const std::string& measure, const Estimate& estimate,
                double expected, bool holds, std::vector<Cell>& cells) {
  const Json row = Row({{"control", control}, {"measure", measure}});
  cells.push_back(MakeCell("E0", row, "value", estimate));
  cells.push_back(MakeCell("E0", row, "expected", expected, estimate.steps));
  if (!std::isnan(estimate.value))
    cells.push_back(MakeCell("E0", row, "holds", holds ? 1 : 0, estimate.steps));
}

void AddChanceControl(const MethodResult& method, std::vector<Cell>& cells) {
  const Estimate pr_auc = EstimateWithinRuns(method.seeds, {}, PrAuc(.5));
  const Estimate roc_auc = EstimateWithinRuns(
      method.seeds, {},
      [](const SeedResult&, const StepRefs& steps) { return RocAuc(ScoreSamples(steps)); });
  AddControl(method.method, "PR-AUC", pr_auc, .5, IsAtChance(pr_auc), cells);
  AddControl(method.method, "ROC-AUC", roc_auc, .5, IsAtChance(roc_auc), cells);
}

void AddPlaceboControl(const MethodResult& model, std::vector<Cell>& cells) {
  const auto alarms = [](const SeedResult& seed, const StepRefs& steps) {
    return ScoreAlarms(steps, seed.ThresholdAt(kHeadlinePrior));
  };
  const Estimate placebo =
      EstimateMetric(model.seeds, {},
                     [&](const SeedResult& s, const StepRefs& x) { return alarms(s, x).placebo; });
  const Estimate healthy =
      EstimateMetric(model.seeds, {},
                     [&](const SeedResult& s, const StepRefs& x) { return alarms(s, x).healthy; });
  double error = 0;
  for (const SeedResult& seed : model.seeds) {
    error = std::max(error, alarms(seed, Select(seed.test, {})).error);
  }
  AddControl("placebo stretches", "alarm rate (expected: the healthy rate)", placebo, healthy.value,
             placebo.value <= healthy.value + 2 * error, cells);
}

}  // namespace

std::vector<Cell> LeakControls(const LeakControlInputs& inputs) {
  std::vector<Cell> cells;
  for (const MethodResult* method : {&inputs.permuted, &inputs.schedule_only, &inputs.shape_only}) {
    AddChanceControl(*method, cells);
  }
  const Estimate guess = EstimateMetric(inputs.injection_prior.seeds, {}, TopK(1));
  const Estimate model = EstimateMetric(inputs.model.seeds, {}, TopK(1));
  AddControl(inputs.injection_prior.method, "operator top-1 (expected: below the model's)", guess,
             model.value, guess.value < model.value, cells);
  AddPlaceboControl(inputs.model, cells);
  return cells;
}

}  // namespace teller::experiment
