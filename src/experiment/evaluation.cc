#include "src/experiment/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "src/experiment/baselines.h"
#include "src/experiment/diagnosis_metrics.h"
#include "src/experiment/published.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kFixedThreshold = .5;
constexpr double kChanceTolerance = .05;

struct NamedMetric {
  std::string name;
  Metric metric;
};

BinaryScores HeadlineScores(const SeedResult& seed, const StepRefs& steps) {
  return ScoresAtPrior(RatesAt(ScoreSamples(steps), seed.ThresholdAt(kHeadlinePrior)),
                       kHeadlinePrior);
}

Metric PrAuc(double prior) {
  return [prior](const SeedResult&, const StepRefs& steps) {
    return AveragePrecision(ScoreSamples(steps), prior);
  };
}

double NaturalPrAuc(const SeedResult&, const StepRefs& steps) {
  const std::vector<Sample> samples = ScoreSamples(steps);
  return AveragePrecision(samples, NaturalPrior(samples));
}

double NaturalEce(const SeedResult&, const StepRefs& steps) {
  const std::vector<Sample> samples = ProbabilitySamples(steps);
  return ExpectedCalibrationError(samples, NaturalPrior(samples));
}

OperatorScores HeadlineOperators(const SeedResult& seed, const StepRefs& steps) {
  return ScoreOperators(steps, seed.ThresholdAt(kHeadlinePrior), kHeadlinePrior);
}

Metric TopK(std::size_t k) {
  return [k](const SeedResult&, const StepRefs& steps) { return OperatorTopK(steps, k); };
}

/// The columns of E2.
const std::vector<NamedMetric>& HeadlineMetrics() {
  static const std::vector<NamedMetric> metrics = {
      {"accuracy",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).accuracy; }},
      {"precision",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).precision; }},
      {"recall",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).recall; }},
      {"f1", [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).f1; }},
      {"pr_auc", PrAuc(kHeadlinePrior)},
      {"operator_macro_f1",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineOperators(s, x).macro_f1; }},
      {"operator_micro_f1",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineOperators(s, x).micro_f1; }},
      {"operator_top1", TopK(1)},
      {"operator_top3", TopK(3)},
      {"operator_top5", TopK(5)},
      {"rank_top1", [](const SeedResult&, const StepRefs& x) { return RankTop1(x); }},
      {"kind_macro_f1",
       [](const SeedResult&, const StepRefs& x) { return KindMacroF1(KindConfusion(x)); }},
      {"ece", NaturalEce},
  };
  return metrics;
}

std::string ViewName(View view) {
  return view == View::kNone ? "combined" : view == View::kHorizontal ? "horizontal" : "vertical";
}

struct Levels {
  int low, high;
  std::string Name() const {
    return low == high ? std::to_string(low) : std::to_string(low) + "-" + std::to_string(high);
  }
};
constexpr Levels kAllLevels{1, 5}, kClaimedLevels{2, 5}, kWeakestLevel{1, 1};

Json Row(std::initializer_list<std::pair<const char*, Json>> entries, const Json& more = {}) {
  Json row = Json::object();
  for (const auto& [key, value] : entries) row[key] = value;
  if (more.is_object()) row.update(more);
  return row;
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

bool IsDummy(const std::string& method) {
  return method == kAlwaysPositiveName || method == kStratifiedName;
}

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

std::string PartOf(const std::string& run_id, const Split& split) {
  for (const auto& [name, part] : {std::pair("train", &split.train),
                                   {"validation", &split.validation},
                                   {"test", &split.test}}) {
    if (std::find(part->begin(), part->end(), run_id) != part->end()) return name;
  }
  return "unused";
}

double Median(std::vector<double> values) {
  if (values.empty()) return kNaN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Counts of one part of the data: the columns of E1.
struct PartCounts {
  std::map<std::string, double> columns;
  int64_t scored = 0, nodes = 0, slice_nodes = 0, steps = 0;

  void Add(const RunSummary& run) {
    std::set<int32_t> stretches, placebos, ineffective;
    for (const dataset::StepLabel& label : run.truth.labels) {
      if (label.stretch >= 0) stretches.insert(label.stretch);
      if ((label.reasons & dataset::kReasonPlacebo) != 0) placebos.insert(label.stretch);
      if ((label.reasons & dataset::kReasonIneffective) != 0) ineffective.insert(label.stretch);
      columns[StatusColumn(label)] += 1;
    }
    columns["runs"] += 1;
    columns["stretches"] += static_cast<double>(stretches.size());
    columns["placebos"] += static_cast<double>(placebos.size());
    columns["ineffective"] += static_cast<double>(ineffective.size());
    columns["steps"] += static_cast<double>(run.truth.labels.size());
    steps += static_cast<int64_t>(run.truth.labels.size());
    scored += run.scored_steps;
    nodes += run.forest_nodes;
    slice_nodes += run.slice_nodes;
  }

  static std::string StatusColumn(const dataset::StepLabel& label) {
    if ((label.reasons & dataset::kReasonCalibration) != 0) return "calibration";
    if (label.status == LabelStatus::kPositive) return "positive";
    return label.status == LabelStatus::kGrey ? "grey" : "negative";
  }
};

/// Positive steps of one kind and level: the columns of E1_kinds.
struct KindCounts {
  View view = View::kNone;
  std::set<std::pair<std::string, int32_t>> stretches;
  std::map<std::string, double> steps_by_part;
  std::vector<double> recorded_us;
};

std::map<std::pair<std::string, int32_t>, KindCounts> CountKinds(std::span<const RunSummary> runs,
                                                                 const Split& split) {
  std::map<std::pair<std::string, int32_t>, KindCounts> kinds;
  for (const RunSummary& run : runs) {
    const std::string part = PartOf(run.truth.run_id, split);
    for (const dataset::StepLabel& label : run.truth.labels) {
      if (label.status != LabelStatus::kPositive || !IsScored(label)) continue;
      KindCounts& counts = kinds[{label.kind, label.level}];
      counts.view = label.view;
      counts.stretches.emplace(run.truth.run_id, label.stretch);
      counts.steps_by_part[part] += 1;
      if (label.recorded_ns.empty()) continue;
      const int64_t most_ns = *std::max_element(label.recorded_ns.begin(), label.recorded_ns.end());
      counts.recorded_us.push_back(static_cast<double>(most_ns) / 1e3);
    }
  }
  return kinds;
}

/// Sums over test steps, with the range of the runs' own ratios.
Estimate Ratio(std::span<const RunSummary> runs, double (*part)(const RunSummary&),
               double (*whole)(const RunSummary&)) {
  Estimate estimate{.low = kNaN, .high = kNaN};
  double parts = 0, wholes = 0;
  for (const RunSummary& run : runs) {
    parts += part(run);
    wholes += whole(run);
    estimate.steps += run.scored_steps;
    const double own = part(run) / whole(run);
    estimate.low = std::isnan(estimate.low) ? own : std::min(estimate.low, own);
    estimate.high = std::isnan(estimate.high) ? own : std::max(estimate.high, own);
  }
  estimate.value = parts / wholes;
  return estimate;
}

double SavedTokens(const RunSummary& run) {
  return static_cast<double>(run.forest_nodes - run.forest_tokens);
}
double ForestNodes(const RunSummary& run) { return static_cast<double>(run.forest_nodes); }
double ForestTokens(const RunSummary& run) { return static_cast<double>(run.forest_tokens); }
double CutShort(const RunSummary& run) { return static_cast<double>(run.cut_short); }
double ScoredSteps(const RunSummary& run) { return static_cast<double>(run.scored_steps); }

void AddPoint(const TradeOffPoint& point, std::vector<Cell>& cells) {
  const Json row = Row({{"source", "here"}, {"view", "combined"}}, point.result.keys);
  cells.push_back(MakeCell("E3", row, "entries", static_cast<double>(point.entries), 0));
  cells.push_back(MakeCell("E3", row, "exhausted", point.exhausted ? 1 : 0, 0));
  cells.push_back(
      MakeCell("E3", row, "tokens_per_step", Ratio(point.test, ForestTokens, ScoredSteps)));
  cells.push_back(MakeCell("E3", row, "compression", Ratio(point.test, SavedTokens, ForestNodes)));
  cells.push_back(MakeCell(
      "E3", row, "exact",
      static_cast<double>(point.exact) / static_cast<double>(std::max<int64_t>(1, point.slices)),
      point.slices));
  cells.push_back(MakeCell("E3", row, "cut_short", Ratio(point.test, CutShort, ScoredSteps)));
  for (const View view : {View::kNone, View::kHorizontal, View::kVertical}) {
    Json view_row = row;
    view_row["view"] = ViewName(view);
    for (const NamedMetric& named : HeadlineMetrics()) {
      const Estimate estimate = EstimateMetric(point.result.seeds, {.view = view}, named.metric);
      // The table for people shows the combined view; the others stand in metrics.json as table
      // E3_views.
      cells.push_back(
          MakeCell(view == View::kNone ? "E3" : "E3_views", view_row, named.name, estimate));
    }
  }
}

void AddPublishedRows(std::vector<Cell>& cells) {
  for (const PublishedRow& published : PublishedRows()) {
    const Json row = Row({{"source", "published"},
                          {"view", std::string(published.view)},
                          {"mode", "adjacency-published"},
                          {"vocabulary", published.vocabulary}});
    for (const char* metric :
         {"tokens_per_step", "compression", "accuracy", "f1", "operator_macro_f1"}) {
      Cell cell{.table = "E3", .row = row, .metric = metric};
      cell.published = Published(published.view, published.vocabulary, metric);
      cells.push_back(std::move(cell));
    }
  }
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

std::vector<Cell> DataStatistics(std::span<const RunSummary> runs, const Split& split) {
  std::map<std::string, PartCounts> parts;
  for (const RunSummary& run : runs) {
    parts[PartOf(run.truth.run_id, split)].Add(run);
    parts["all"].Add(run);
  }
  std::vector<Cell> cells;
  for (const char* part : {"train", "validation", "test", "all"}) {
    const PartCounts& counts = parts[part];
    for (const auto& [column, value] : counts.columns) {
      cells.push_back(MakeCell("E1", Row({{"split", part}}), column, value, counts.steps));
    }
    const auto per_step = [&](int64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(counts.scored);
    };
    cells.push_back(MakeCell("E1", Row({{"split", part}}), "nodes_per_step", per_step(counts.nodes),
                             counts.scored));
    cells.push_back(MakeCell("E1", Row({{"split", part}}), "slice_nodes_per_step",
                             per_step(counts.slice_nodes), counts.scored));
  }
  for (const auto& [key, counts] : CountKinds(runs, split)) {
    const Json row =
        Row({{"kind", key.first}, {"view", ViewName(counts.view)}, {"levels", key.second}});
    const auto n = static_cast<int64_t>(counts.recorded_us.size());
    cells.push_back(
        MakeCell("E1_kinds", row, "stretches", static_cast<double>(counts.stretches.size()), n));
    for (const char* part : {"train", "validation", "test"}) {
      const auto found = counts.steps_by_part.find(part);
      cells.push_back(MakeCell("E1_kinds", row, part,
                               found == counts.steps_by_part.end() ? 0 : found->second, n));
    }
    cells.push_back(MakeCell("E1_kinds", row, "recorded_us", Median(counts.recorded_us), n));
  }
  return cells;
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

std::vector<Cell> TradeOff(std::span<const TradeOffPoint> points) {
  std::vector<Cell> cells;
  for (const TradeOffPoint& point : points) AddPoint(point, cells);
  AddPublishedRows(cells);
  return cells;
}

}  // namespace teller::experiment
