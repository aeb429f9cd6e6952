#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "src/experiment/diagnosis_metrics.h"
#include "src/experiment/evaluation.h"
#include "src/experiment/headline_metrics.h"
#include "src/experiment/published.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kFixedThreshold = .5;

double NaturalPrAuc(const SeedResult&, const StepRefs& steps) {
  const std::vector<Sample> samples = ScoreSamples(steps);
  return AveragePrecision(samples, NaturalPrior(samples));
}

std::set<std::string> KindsOf(std::span<const MethodResult> methods) {
  std::set<std::string> kinds;
  for (const ScoredStep& step : methods.front().seeds.front().test) {
    if (IsPositive(step)) kinds.insert(step.label.kind);
  }
  return kinds;
}

/// Whether the one test set has a positive that the filter leaves.
bool HasPositives(std::span<const MethodResult> methods, const PositiveFilter& filter) {
  const StepRefs steps = Select(methods.front().seeds.front().test, filter);
  return std::any_of(steps.begin(), steps.end(),
                     [](const ScoredStep* step) { return IsPositive(*step); });
}

void AddViewRows(std::span<const MethodResult> methods, const std::string& main_method, View view,
                 Levels levels, std::vector<Cell>& cells) {
  const PositiveFilter filter{.view = view, .level_low = levels.low, .level_high = levels.high};
  if (!HasPositives(methods, filter)) return;
  for (const MethodResult& method : methods) {
    const Json row =
        Row({{"view", ViewName(view)}, {"levels", levels.Name()}, {"method", method.method}},
            method.keys);
    for (const NamedMetric& named : HeadlineMetrics()) {
      Cell cell =
          MakeCell("E2", row, named.name, EstimateMetric(method.seeds, filter, named.metric));
      if (method.method == main_method) cell.published = Published(ViewName(view), 256, named.name);
      cells.push_back(std::move(cell));
    }
  }
}

/// The rates at a threshold, a false-positive rate of zero replaced by its upper 95 % bound (0 of
/// n: 1 - .05^(1/n)).
Rates BoundedRates(const StepRefs& steps, double threshold) {
  const std::vector<Sample> samples = ScoreSamples(steps);
  Rates rates = RatesAt(samples, threshold);
  const auto negatives =
      std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return !s.positive; });
  if (rates.false_positive == 0 && negatives > 0) {
    rates.false_positive = 1 - std::pow(.05, 1.0 / static_cast<double>(negatives));
  }
  return rates;
}

/// Rates when a step is flagged from probability .5 on; NaN where the method gives no probability.
Rates FixedRates(const StepRefs& steps) {
  const std::vector<Sample> samples = ProbabilitySamples(steps);
  const bool blank = std::any_of(samples.begin(), samples.end(),
                                 [](const Sample& s) { return std::isnan(s.score); });
  return blank ? Rates{kNaN, kNaN} : RatesAt(samples, kFixedThreshold);
}

void AddPriorRow(const MethodResult& method, double prior, bool fixed, std::vector<Cell>& cells) {
  const auto scores = [prior, fixed](const SeedResult& seed, const StepRefs& steps) {
    return ScoresAtPrior(fixed ? FixedRates(steps) : BoundedRates(steps, seed.ThresholdAt(prior)),
                         prior);
  };
  const Json row = Row(
      {{"method", method.method}, {"threshold", fixed ? "fixed" : "validation"}, {"prior", prior}},
      method.keys);
  const std::vector<NamedMetric> metrics = {
      {"precision", [&](const SeedResult& s, const StepRefs& x) { return scores(s, x).precision; }},
      {"recall", [&](const SeedResult& s, const StepRefs& x) { return scores(s, x).recall; }},
      {"f1", [&](const SeedResult& s, const StepRefs& x) { return scores(s, x).f1; }}};
  for (const NamedMetric& named : metrics) {
    const Estimate estimate = EstimateMetric(method.seeds, {}, named.metric);
    if (!fixed || !std::isnan(estimate.value))
      cells.push_back(MakeCell("E2_priors", row, named.name, estimate));
  }
  if (!fixed)
    cells.push_back(
        MakeCell("E2_priors", row, "pr_auc", EstimateMetric(method.seeds, {}, PrAuc(prior))));
}

void AddKindRows(std::span<const MethodResult> methods, const std::string& kind, Levels levels,
                 std::vector<Cell>& cells) {
  const PositiveFilter filter{.level_low = levels.low, .level_high = levels.high, .kind = kind};
  if (!HasPositives(methods, filter)) return;
  for (const MethodResult& method : methods) {
    const Json row =
        Row({{"kind", kind}, {"levels", levels.Name()}, {"method", method.method}}, method.keys);
    const Estimate pr_auc = EstimateMetric(method.seeds, filter, NaturalPrAuc);
    cells.push_back(MakeCell("E2_kinds", row, "pr_auc", pr_auc));
    cells.push_back(
        MakeCell("E2_kinds", row, "chance",
                 EstimateMetric(method.seeds, filter, [](const SeedResult&, const StepRefs& steps) {
                   return NaturalPrior(ScoreSamples(steps));
                 })));
    for (const NamedMetric& named : HeadlineMetrics()) {
      const bool shown =
          named.name == "recall" || named.name == "operator_top1" || named.name == "rank_top1";
      if (shown)
        cells.push_back(MakeCell("E2_kinds", row, named.name,
                                 EstimateMetric(method.seeds, filter, named.metric)));
    }
    cells.push_back(MakeCell("E2_kinds", row, "positives", static_cast<double>(pr_auc.positives),
                             pr_auc.steps));
  }
}

void AddConfusion(const MethodResult& method, std::vector<Cell>& cells) {
  Confusion confusion;
  for (const SeedResult& seed : method.seeds) {
    for (const auto& [pair, n] : KindConfusion(Select(seed.test, {}))) confusion[pair] += n;
  }
  for (const auto& [pair, n] : confusion) {
    const Json row =
        Row({{"kind", pair.first}, {"answer", pair.second}, {"method", method.method}});
    cells.push_back(MakeCell("E2_confusion", row, "steps", static_cast<double>(n), n));
  }
}

}  // namespace

std::vector<Cell> MainComparison(std::span<const MethodResult> methods,
                                 const std::string& main_method) {
  std::vector<Cell> cells;
  for (const View view : {View::kHorizontal, View::kVertical, View::kNone}) {
    for (const Levels levels : {kClaimedLevels, kAllLevels, kWeakestLevel}) {
      AddViewRows(methods, main_method, view, levels, cells);
    }
  }
  for (const MethodResult& method : methods) {
    for (const double prior : kPriors) AddPriorRow(method, prior, false, cells);
    for (const double prior : kPriors) AddPriorRow(method, prior, true, cells);
    if (method.method == main_method) AddConfusion(method, cells);
  }
  for (const std::string& kind : KindsOf(methods)) {
    for (const Levels levels : {kClaimedLevels, kAllLevels})
      AddKindRows(methods, kind, levels, cells);
  }
  return cells;
}

}  // namespace teller::experiment
