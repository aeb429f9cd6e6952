#include "src/experiment/table_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace teller::experiment {
namespace {
using Json = nlohmann::ordered_json;

std::string FormatNumber(double value, NumberStyle style) {
  switch (style) {
    case NumberStyle::kShare:
      return fmt::format("{:.3f}", value);
    case NumberStyle::kPercent:
      return fmt::format("{:.1f} %", 100 * value);
    case NumberStyle::kCount:
      return fmt::format("{:.0f}", value);
    case NumberStyle::kYesNo:
      return value > .5 ? "yes" : "no";
    case NumberStyle::kNumber:
      break;
  }
  return fmt::format("{:.4g}", value);
}

std::string FormatKey(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  return value.dump();
}

/// The cells of one table by row, rows and columns in order of appearance.
struct Grid {
  std::vector<Json> rows;
  std::map<std::pair<std::size_t, std::string>, const Cell*> cells;

  Grid(const TableLayout& layout, std::span<const Cell> all) {
    for (const Cell& cell : all) {
      if (cell.table == layout.table) cells[{RowOf(cell.row), cell.metric}] = &cell;
    }
  }
  bool HasMetric(const std::string& metric) const {
    return std::any_of(cells.begin(), cells.end(), [&](const auto& entry) {
      return entry.first.second == metric && (entry.second->value || entry.second->published);
    });
  }
  bool HasKey(const std::string& key) const {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Json& row) { return row.contains(key); });
  }

 private:
  std::size_t RowOf(const Json& row) {
    const auto found = std::find(rows.begin(), rows.end(), row);
    if (found != rows.end()) return static_cast<std::size_t>(found - rows.begin());
    rows.push_back(row);
    return rows.size() - 1;
  }
};

}  // namespace

std::span<const TableLayout> Layouts() {
  static const std::vector<TableLayout> layouts = {
      {"E0",
       "E0. Leak controls (gate all other tables)",
       {{"control", "control"}, {"measure", "measure"}},
       {{"value", "value", NumberStyle::kShare, true},
        {"expected", "expected", NumberStyle::kShare},
        {"holds", "holds", NumberStyle::kYesNo}},
       "PR-AUC and ROC-AUC at 50 % prior, where chance is 0.5: means of the test runs' own values, "
       "in brackets the least and "
       "largest. A control holds where the range includes chance or the mean lies within 0.05 of "
       "it; placebo alarms hold "
       "where they are at most the healthy rate plus two standard errors, stretches counted as "
       "one."},
      {"E1",
       "E1. Data",
       {{"split", "part"}},
       {{"runs", "runs", NumberStyle::kCount},
        {"stretches", "stretches", NumberStyle::kCount},
        {"placebos", "placebos", NumberStyle::kCount},
        {"ineffective", "ineffective", NumberStyle::kCount},
        {"steps", "steps", NumberStyle::kCount},
        {"positive", "positive", NumberStyle::kCount},
        {"negative", "negative", NumberStyle::kCount},
        {"grey", "grey", NumberStyle::kCount},
        {"calibration", "calibration", NumberStyle::kCount},
        {"nodes_per_step", "nodes/step", NumberStyle::kCount},
        {"slice_nodes_per_step", "slice nodes", NumberStyle::kCount}},
       "Steps in the calibration window are never scored; grey steps are counted here and in no "
       "other table."},
      {"E1_kinds",
       "E1. Faults by kind and level",
       {{"kind", "kind"}, {"view", "view"}, {"levels", "level"}},
       {{"stretches", "stretches", NumberStyle::kCount},
        {"train", "train steps", NumberStyle::kCount},
        {"validation", "validation", NumberStyle::kCount},
        {"test", "test", NumberStyle::kCount},
        {"recorded_us", "recorded us/step (median)", NumberStyle::kNumber}},
       "Positive steps. Recorded time is the injector's own evidence within the step, the largest "
       "over ranks."},
      {"E2",
       "E2. Main comparison by view",
       {{"view", "view"}, {"levels", "levels"}, {"method", "method"}},
       {{"accuracy", "acc"},
        {"precision", "prec"},
        {"recall", "recall"},
        {"f1", "F1", NumberStyle::kShare, true},
        {"pr_auc", "PR-AUC", NumberStyle::kShare, true},
        {"operator_macro_f1", "op macro-F1"},
        {"operator_top1", "op top-1"},
        {"operator_top3", "op top-3"},
        {"rank_top1", "rank top-1"},
        {"kind_macro_f1", "kind macro-F1"},
        {"ece", "ECE"}},
       "At 43 % prior, threshold chosen on validation; means over seeds. A view's rows are its "
       "positives and all negatives. "
       "In brackets the range over test runs (from eight runs on a 95 % interval); in parentheses "
       "what was published on "
       "another test set. Blank: a head that the method does not fill."},
      {"E2_priors",
       "E2. Lower priors (combined view, all levels)",
       {{"method", "method"}, {"threshold", "threshold"}, {"prior", "prior"}},
       {{"precision", "prec"},
        {"recall", "recall"},
        {"f1", "F1", NumberStyle::kShare, true},
        {"pr_auc", "PR-AUC"}},
       "Reached by weighting the two rates. 'fixed' is probability 0.5. Where no healthy step was "
       "flagged, the upper 95 % "
       "bound of the false-positive rate stands instead.",
       false},
      {"E2_kinds",
       "E2. By fault kind",
       {{"kind", "kind"}, {"levels", "levels"}, {"method", "method"}},
       {{"pr_auc", "PR-AUC", NumberStyle::kShare, true},
        {"chance", "always positive"},
        {"recall", "recall"},
        {"operator_top1", "op top-1"},
        {"rank_top1", "rank top-1"},
        {"positives", "positives", NumberStyle::kCount}},
       "PR-AUC at the natural prior of the kind's positives among all negatives; 'always positive' "
       "is that prior."},
      {"E2_confusion",
       "E2. Kinds answered (full model, positive test steps, all seeds)",
       {{"kind", "true kind"}, {"answer", "answer"}},
       {{"steps", "steps", NumberStyle::kCount}},
       ""},
      {"E3",
       "E3. The trade-off: compression against accuracy",
       {{"source", "source"},
        {"view", "view"},
        {"mode", "mode"},
        {"vocabulary", "vocabulary"},
        {"inputs", "inputs"}},
       {{"entries", "entries", NumberStyle::kCount},
        {"exhausted", "exhausted", NumberStyle::kYesNo},
        {"tokens_per_step", "tokens/step", NumberStyle::kNumber},
        {"compression", "cut", NumberStyle::kPercent},
        {"exact", "exact", NumberStyle::kPercent},
        {"cut_short", "cut short", NumberStyle::kPercent},
        {"accuracy", "acc"},
        {"f1", "F1", NumberStyle::kShare, true},
        {"pr_auc", "PR-AUC", NumberStyle::kShare, true},
        {"operator_top1", "op top-1"},
        {"operator_macro_f1", "op macro-F1", NumberStyle::kShare, true}},
       "Whole-step forests of the test runs, all ranks. 'tokens': the model sees tokens and their "
       "times only; 'full': also "
       "step numbers, localiser features and logs. The claim rests on 'tokens'. 'exhausted': no "
       "pair was left to merge "
       "before the wanted size. 'exact': slices of all runs whose tokens were decoded and gave "
       "back "
       "symbols, depths and parents, and whose tokens' times add up to the whole step's. 'cut "
       "short': steps with more tokens than the model takes. In parentheses: published, another "
       "test set, for orientation."},
      {"F1",
       "F1. What the faults did, by kind and level",
       {{"engine", "engine"}, {"kind", "kind"}, {"level", "level"}},
       {{"stretches", "stretches", NumberStyle::kCount},
        {"planned_us", "planned us/step", NumberStyle::kNumber},
        {"recorded_us", "recorded us/step", NumberStyle::kNumber},
        {"size_ratio", "achieved/planned", NumberStyle::kNumber},
        {"step_ratio", "median step", NumberStyle::kShare},
        {"mean_ratio", "mean step", NumberStyle::kShare, true},
        {"tpot_ratio", "TPOT", NumberStyle::kShare},
        {"acted", "acted", NumberStyle::kPercent},
        {"visible", "visible", NumberStyle::kPercent},
        {"recovery_ms", "recovery ms", NumberStyle::kNumber},
        {"positive", "positive", NumberStyle::kCount},
        {"grey", "grey", NumberStyle::kCount},
        {"elsewhere", "on other ranks", NumberStyle::kPercent},
        {"slope", "slope", NumberStyle::kShare, true}},
       "Recorded time is the injector's own evidence within a step, the largest over ranks, median "
       "over affected steps. 'achieved/planned' is the length of a single delay or pulse. Steps "
       "and "
       "TPOT are ratios to healthy stretches of the same run, by phase and batch bucket; "
       "'visible': "
       "the 95 % interval of the mean step excludes 1. 'on other ranks': share of the recorded "
       "time "
       "on ranks that the fault did not name. Slope: a step's extra time on its recorded time. In "
       "brackets 95 % intervals over stretches."},
      {"F2",
       "F2. Placebos",
       {{"engine", "engine"}, {"kind", "kind"}},
       {{"stretches", "stretches", NumberStyle::kCount},
        {"step_ratio", "median step", NumberStyle::kShare},
        {"mean_ratio", "mean step", NumberStyle::kShare, true},
        {"acted", "acted", NumberStyle::kPercent},
        {"visible", "visible", NumberStyle::kPercent}},
       "Fully planned, effect zero: what a kind costs by being switched on."},
      {"F3",
       "F3. What must hold",
       {{"engine", "engine"},
        {"kind", "kind"},
        {"level", "level"},
        {"check", "check"},
        {"wanted", "wanted"}},
       {{"value", "measured", NumberStyle::kShare, true}, {"holds", "holds", NumberStyle::kYesNo}},
       "Of the strongest level at least 95 % of the stretches acted; the weakest moves the median "
       "step by less than 3 %; for agent kinds the slope lies between .8 and 1.25."},
      {"F4",
       "F4. Faults of the engine's configuration, against restarts that are healthy",
       {{"engine", "engine"}, {"kind", "kind"}, {"level", "level"}},
       {{"runs", "runs", NumberStyle::kCount},
        {"restarts", "healthy restarts", NumberStyle::kCount},
        {"step_ratio", "median step", NumberStyle::kShare},
        {"tpot_ratio", "TPOT", NumberStyle::kShare},
        {"request_ratio", "request", NumberStyle::kShare}},
       "Ratios of medians over runs of the runs' own medians; the i-th run of each has the same "
       "requests."},
  };
  return layouts;
}

std::string FormatCell(const Cell& cell, const MetricColumn& column) {
  std::string text = cell.value ? FormatNumber(*cell.value, column.style) : "";
  if (cell.value && column.shows_range && cell.low && cell.high) {
    text += fmt::format(" [{}, {}]", FormatNumber(*cell.low, column.style),
                        FormatNumber(*cell.high, column.style));
  }
  if (cell.published) {
    text +=
        fmt::format("{}({})", text.empty() ? "" : " ", FormatNumber(*cell.published, column.style));
  }
  return text + (cell.stale && !text.empty() ? "*" : "");
}

TextTable FillTable(const TableLayout& layout, std::span<const Cell> cells) {
  const Grid grid(layout, cells);
  std::vector<std::pair<std::string, std::string>> keys;
  std::vector<MetricColumn> columns;
  for (const auto& key : layout.row_keys) {
    if (grid.HasKey(key.first)) keys.push_back(key);
  }
  for (const MetricColumn& column : layout.columns) {
    if (grid.HasMetric(column.metric)) columns.push_back(column);
  }
  std::vector<std::string> header;
  for (const auto& key : keys) header.push_back(key.second);
  for (const MetricColumn& column : columns) header.push_back(column.header);
  TextTable table(header);
  for (std::size_t row = 0; row < grid.rows.size(); ++row) {
    std::vector<std::string> texts;
    for (const auto& key : keys) {
      texts.push_back(grid.rows[row].contains(key.first) ? FormatKey(grid.rows[row][key.first])
                                                         : "");
    }
    for (const MetricColumn& column : columns) {
      const auto found = grid.cells.find({row, column.metric});
      texts.push_back(found == grid.cells.end() ? "" : FormatCell(*found->second, column));
    }
    table.AddRow(std::move(texts));
  }
  return table;
}

}  // namespace teller::experiment
