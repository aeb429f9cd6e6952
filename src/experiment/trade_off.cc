#include <algorithm>
#include <cmath>
#include <limits>

#include "src/experiment/evaluation.h"
#include "src/experiment/headline_metrics.h"
#include "src/experiment/published.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

std::vector<Cell> TradeOff(std::span<const TradeOffPoint> points) {
  std::vector<Cell> cells;
  for (const TradeOffPoint& point : points) AddPoint(point, cells);
  AddPublishedRows(cells);
  return cells;
}

}  // namespace teller::experiment
