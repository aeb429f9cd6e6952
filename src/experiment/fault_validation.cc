#include "src/experiment/fault_validation.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/error.h"
#include "src/core/version.h"
#include "src/experiment/metrics.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

using dataset::StepsFile;
using dataset::Truth;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int32_t kWeakest = 1, kStrongest = 5;
/// What must hold of a kind (docs/fault_validation.md).
constexpr double kLeastActed = 0.95, kWeakestMove = 0.03, kSlopeLow = 0.8, kSlopeHigh = 1.25;

/// Slope of y on x with an intercept; NaN where x does not vary.
double SlopeOf(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = Mean(x), mean_y = Mean(y);
  double covariance = 0, variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    covariance += (x[i] - mean_x) * (y[i] - mean_y);
    variance += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return variance > 0 ? covariance / variance : kNaN;
}

using Stretches = std::vector<const StretchEffect*>;

std::vector<double> Each(const Stretches& stretches,
                         const std::function<double(const StretchEffect&)>& value) {
  std::vector<double> values;
  for (const StretchEffect* stretch : stretches) values.push_back(value(*stretch));
  return values;
}

Stretches Draw(const Stretches& stretches, Random& random) {
  Stretches drawn;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    drawn.push_back(stretches[static_cast<std::size_t>(
        random.UniformInt(0, static_cast<int64_t>(stretches.size()) - 1))]);
  }
  return drawn;
}

double SlopeOver(const Stretches& stretches) {
  std::vector<double> x, y;
  for (const StretchEffect* stretch : stretches) {
    x.insert(x.end(), stretch->recorded_us.begin(), stretch->recorded_us.end());
    y.insert(y.end(), stretch->extra_us.begin(), stretch->extra_us.end());
  }
  return SlopeOf(x, y);
}

double RecordedOver(const Stretches& stretches) {
  std::vector<double> recorded;
  for (const StretchEffect* stretch : stretches)
    recorded.insert(recorded.end(), stretch->recorded_us.begin(), stretch->recorded_us.end());
  return Median(std::move(recorded));
}

/// Rows of one table, with intervals over stretches.
class Rows {
 public:
  explicit Rows(std::vector<Cell>& cells) : cells_(cells) {}

  void Add(const std::string& table, const Json& row, const std::string& metric,
           const Stretches& stretches, const std::function<double(const Stretches&)>& value,
           bool with_interval = false) {
    Cell cell{
        .table = table, .row = row, .metric = metric, .n = static_cast<int64_t>(stretches.size())};
    const double number = value(stretches);
    if (!std::isnan(number)) cell.value = number;
    if (with_interval && stretches.size() > 1) {
      const Interval interval =
          Resample(1, [&](Random& random) { return value(Draw(stretches, random)); });
      if (!std::isnan(interval.low)) {
        cell.low = interval.low;
        cell.high = interval.high;
        cell.is_interval = true;
      }
    }
    cells_.push_back(std::move(cell));
  }

 private:
  std::vector<Cell>& cells_;
};

using Of = std::function<double(const StretchEffect&)>;
std::function<double(const Stretches&)> MedianBy(Of of) {
  return [of](const Stretches& stretches) { return Median(Each(stretches, of)); };
}
std::function<double(const Stretches&)> MeanBy(Of of) {
  return [of](const Stretches& stretches) { return Mean(Each(stretches, of)); };
}
std::function<double(const Stretches&)> SumBy(Of of) {
  return [of](const Stretches& stretches) {
    return Mean(Each(stretches, of)) * static_cast<double>(stretches.size());
  };
}

double StepRatio(const Stretches& stretches) {
  return Median(Each(stretches, [](const StretchEffect& s) { return s.step_ratio; }));
}
double MeanRatio(const Stretches& stretches) {
  return Mean(Each(stretches, [](const StretchEffect& s) { return s.mean_ratio; }));
}
double ActedShare(const Stretches& stretches) {
  return Mean(Each(stretches, [](const StretchEffect& s) { return s.acted ? 1.0 : 0.0; }));
}
double VisibleShare(const Stretches& stretches) {
  return Mean(Each(stretches, [](const StretchEffect& s) { return s.visible ? 1.0 : 0.0; }));
}
double CountOf(const Stretches& stretches) { return static_cast<double>(stretches.size()); }

void AddEffectRow(const Json& row, const Stretches& stretches, Rows& rows) {
  const auto add = [&](const char* metric, const auto& value, bool interval = false) {
    rows.Add("F1", row, metric, stretches, value, interval);
  };
  add("stretches", CountOf);
  add("planned_us", MedianBy([](const StretchEffect& s) { return s.planned_us; }));
  add("recorded_us", RecordedOver);
  add("size_ratio", MedianBy([](const StretchEffect& s) { return s.size_ratio; }));
  add("step_ratio", StepRatio);
  add("mean_ratio", MeanRatio, true);
  add("tpot_ratio", MedianBy([](const StretchEffect& s) { return s.tpot_ratio; }));
  add("acted", ActedShare);
  add("visible", VisibleShare);
  add("recovery_ms", MedianBy([](const StretchEffect& s) { return s.recovery_ms; }));
  add("positive", SumBy([](const StretchEffect& s) { return static_cast<double>(s.positive); }));
  add("grey", SumBy([](const StretchEffect& s) { return static_cast<double>(s.grey); }));
  add("elsewhere", MeanBy([](const StretchEffect& s) { return s.elsewhere; }));
  add("slope", SlopeOver, true);
}

void AddPlaceboRow(const Json& row, const Stretches& stretches, Rows& rows) {
  rows.Add("F2", row, "stretches", stretches, CountOf);
  rows.Add("F2", row, "step_ratio", stretches, StepRatio);
  rows.Add("F2", row, "mean_ratio", stretches, MeanRatio, true);
  rows.Add("F2", row, "acted", stretches, ActedShare);
  rows.Add("F2", row, "visible", stretches, VisibleShare);
}

/// Kinds whose actions are single delays at calls: their time is the step's own.
bool IsAgentKind(const Stretches& stretches) {
  static const std::set<std::string> kinds = {
      "collective_delay", "operator_slowdown", "launch_delay",   "copy_delay",
      "copy_throttle",    "sync_delay",        "scheduler_stall"};
  return kinds.contains(stretches.front()->kind);
}

void AddCheck(const Json& where, const std::string& check, const std::string& wanted, double value,
              bool holds, std::vector<Cell>& cells, Interval interval = {}) {
  Json row = where;
  row["check"] = check;
  row["wanted"] = wanted;
  Cell cell{.table = "F3", .row = row, .metric = "value"};
  if (!std::isnan(value)) cell.value = value;
  if (!std::isnan(interval.low)) {
    cell.low = interval.low;
    cell.high = interval.high;
    cell.is_interval = true;
  }
  cells.push_back(cell);
  cells.push_back({.table = "F3", .row = row, .metric = "holds", .value = holds ? 1.0 : 0.0});
}

void AddChecks(const Json& row, int32_t level, const Stretches& stretches,
               std::vector<Cell>& cells) {
  if (level == kStrongest) {
    const double acted = ActedShare(stretches);
    AddCheck(row, "strongest level acted", ">= 0.95", acted, acted >= kLeastActed, cells);
  }
  if (level == kWeakest) {
    const double moved = std::abs(StepRatio(stretches) - 1);
    AddCheck(row, "weakest level moves the median step", "< 0.03", moved, moved < kWeakestMove,
             cells);
  }
  // One stretch has no interval, and hardly a slope.
  if (!IsAgentKind(stretches) || stretches.size() < 2) return;
  const double slope = SlopeOver(stretches);
  const Interval interval =
      Resample(1, [&](Random& random) { return SlopeOver(Draw(stretches, random)); });
  AddCheck(row, "slope of extra on recorded time", "0.8 to 1.25", slope,
           slope >= kSlopeLow && slope <= kSlopeHigh, cells, interval);
}

}  // namespace

std::vector<Cell> FaultCells(std::span<const StretchEffect> stretches) {
  std::map<std::tuple<std::string, std::string, int32_t>, Stretches> cells_of;
  std::map<std::pair<std::string, std::string>, Stretches> placebos_of;
  for (const StretchEffect& stretch : stretches) {
    if (stretch.placebo) {
      placebos_of[{stretch.engine, stretch.kind}].push_back(&stretch);
    } else {
      cells_of[{stretch.engine, stretch.kind, stretch.level}].push_back(&stretch);
    }
  }
  std::vector<Cell> cells;
  Rows rows(cells);
  for (const auto& [key, of_cell] : cells_of) {
    const auto& [engine, kind, level] = key;
    AddEffectRow({{"engine", engine}, {"kind", kind}, {"level", level}}, of_cell, rows);
  }
  for (const auto& [key, of_kind] : placebos_of)
    AddPlaceboRow({{"engine", key.first}, {"kind", key.second}}, of_kind, rows);
  for (const auto& [key, of_cell] : cells_of) {
    const auto& [engine, kind, level] = key;
    AddChecks({{"engine", engine}, {"kind", kind}, {"level", level}}, level, of_cell, cells);
  }
  return cells;
}

std::vector<Cell> ConfigurationCells(std::span<const WholeRun> runs) {
  using Of = std::vector<double> WholeRun::*;
  std::map<std::tuple<std::string, std::string, int32_t>, std::vector<const WholeRun*>> groups;
  for (const WholeRun& run : runs) groups[{run.engine, run.kind, run.level}].push_back(&run);
  const auto median = [&](const std::vector<const WholeRun*>& group, Of of) {
    std::vector<double> medians;
    for (const WholeRun* run : group) medians.push_back(Median(run->*of));
    return Median(std::move(medians));
  };
  std::vector<Cell> cells;
  for (const auto& [key, group] : groups) {
    const auto& [engine, kind, level] = key;
    const auto healthy = groups.find({engine, "", 0});
    if (kind.empty() || healthy == groups.end()) continue;
    const Json row{{"engine", engine}, {"kind", kind}, {"level", level}};
    const auto add = [&](const char* metric, double value) {
      Cell cell{.table = "F4", .row = row, .metric = metric};
      if (!std::isnan(value)) cell.value = value;
      cells.push_back(std::move(cell));
    };
    add("runs", static_cast<double>(group.size()));
    add("restarts", static_cast<double>(healthy->second.size()));
    add("step_ratio",
        median(group, &WholeRun::step_ms) / median(healthy->second, &WholeRun::step_ms));
    add("tpot_ratio",
        median(group, &WholeRun::tpot_ms) / median(healthy->second, &WholeRun::tpot_ms));
    add("request_ratio",
        median(group, &WholeRun::request_ms) / median(healthy->second, &WholeRun::request_ms));
  }
  return cells;
}

void ValidateFaults(std::span<const fs::path> run_folders, std::span<const fs::path> steps_files,
                    const std::string& experiment, const std::string& config_hash,
                    const fs::path& output) {
  TELLER_CHECK(run_folders.size() == steps_files.size());
  std::vector<StretchEffect> stretches;
  std::vector<WholeRun> whole_runs;
  int64_t steps = 0;
  for (std::size_t i = 0; i < run_folders.size(); ++i) {
    const StepsFile file = dataset::ReadSteps(steps_files[i]);
    const fs::path load = run_folders[i] / "load.jsonl";
    const auto requests = fs::exists(load) ? ReadLoadRequests(load) : std::vector<LoadRequest>{};
    const Truth truth = dataset::ReadTruth(run_folders[i] / "truth.jsonl");
    if (auto whole = AsWholeRun(file, truth, requests)) whole_runs.push_back(std::move(*whole));
    const auto of_run = MeasureStretches(file, truth, requests);
    stretches.insert(stretches.end(), of_run.begin(), of_run.end());
    steps += static_cast<int64_t>(file.labels.size());
  }
  MetricsFile metrics{.experiment = experiment, .config_hash = config_hash};
  metrics.provenance["test_set"] =
      fmt::format("{} runs, {} stretches, {} steps", run_folders.size(), stretches.size(), steps);
  metrics.provenance["commit"] = Commit();
  metrics.cells = FaultCells(stretches);
  const std::vector<Cell> configuration = ConfigurationCells(whole_runs);
  metrics.cells.insert(metrics.cells.end(), configuration.begin(), configuration.end());
  WriteMetrics(output, metrics);
}

}  // namespace teller::experiment
