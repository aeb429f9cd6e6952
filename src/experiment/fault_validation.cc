#include "src/experiment/fault_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"
#include "src/core/random.h"
#include "src/core/version.h"
#include "src/dataset/step_scale.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

using dataset::StepLabel;
using dataset::StepsFile;
using dataset::Truth;
using dataset::TruthPlan;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 400;
/// Steps in a row depend on each other: they are drawn in blocks of so many.
constexpr std::size_t kBlockSteps = 10;
constexpr double kNs = 1e-3;  // to microseconds
/// A request counts for a stretch, or for healthy time, where so much of it lies there.
constexpr double kRequestShare = 0.8;
constexpr int32_t kWeakest = 1, kStrongest = 5;
/// What must hold of a kind (docs/fault_validation.md).
constexpr double kLeastActed = 0.95, kWeakestMove = 0.03, kSlopeLow = 0.8, kSlopeHigh = 1.25;

double MedianOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNaN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNaN : sum / static_cast<double>(values.size());
}

struct Interval {
  double low = kNaN, high = kNaN;
};

/// 95 % of the values of `draw`.
Interval Resample(uint64_t seed, const std::function<double(Random&)>& draw) {
  Random random(seed, "fault validation");
  std::vector<double> values;
  for (int i = 0; i < kResamples; ++i) values.push_back(draw(random));
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.size() < kResamples / 2) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {.low = at(0.025), .high = at(0.975)};
}

/// Mean of as many values, drawn in blocks.
double BlockMean(const std::vector<double>& values, Random& random) {
  const std::size_t block = std::min(kBlockSteps, values.size());
  const auto last = static_cast<int64_t>(values.size() - block);
  double sum = 0;
  std::size_t count = 0;
  while (count < values.size()) {
    const auto first = static_cast<std::size_t>(random.UniformInt(0, last));
    for (std::size_t i = first; i < first + block; ++i, ++count) sum += values[i];
  }
  return sum / static_cast<double>(count);
}

/// Slope of y on x with an intercept; NaN where x does not vary.
double SlopeOf(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = MeanOf(x), mean_y = MeanOf(y);
  double covariance = 0, variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    covariance += (x[i] - mean_x) * (y[i] - mean_y);
    variance += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return variance > 0 ? covariance / variance : kNaN;
}

int64_t DurationNs(const reconstruct::StepForest& step) { return step.end_ns - step.begin_ns; }

bool IsByRun(const TruthPlan& plan) {
  const auto* kind = fault_injection::FindKind(plan.kind);
  return kind != nullptr && kind->description.by_run;
}

/// One run: how long healthy steps take, and what each stretch did against that.
class RunEffects {
 public:
  RunEffects(const StepsFile& steps, const Truth& truth, std::span<const LoadRequest> requests)
      : steps_(steps), truth_(truth), requests_(requests) {
    for (std::size_t i = 0; i < steps.labels.size(); ++i) {
      if (!IsHealthy(steps.labels[i])) continue;
      scale_.Add(steps.run.steps[i], DurationNs(steps.run.steps[i]));
    }
    scale_.Fit();
    for (std::size_t i = 0; i < steps.labels.size(); ++i) {
      if (IsHealthy(steps.labels[i])) healthy_.push_back(Ratio(i));
    }
    for (const TruthPlan& plan : truth.plans) CollectWindow(plan);
    for (const LoadRequest& request : requests_) {
      if (ShareInStretches(request) < 1 - kRequestShare)
        healthy_tpot_.push_back(static_cast<double>(request.tpot_ns));
    }
  }

  std::vector<StretchEffect> Measure() const {
    std::map<int32_t, int> plans_of;
    for (const TruthPlan& plan : truth_.plans) ++plans_of[plan.stretch];
    std::vector<StretchEffect> effects;
    for (const TruthPlan& plan : truth_.plans) {
      if (IsByRun(plan)) continue;
      if (plans_of.at(plan.stretch) == 1 && windows_.contains(plan.plan_id))
        effects.push_back(MeasureOne(plan));
    }
    return effects;
  }

 private:
  using Window = std::pair<int64_t, int64_t>;

  static bool IsHealthy(const StepLabel& label) {
    return label.status == dataset::LabelStatus::kNegative && label.stretch < 0;
  }

  double Ratio(std::size_t step) const {
    const auto& forest = steps_.run.steps[step];
    return static_cast<double>(DurationNs(forest)) /
           static_cast<double>(std::max<int64_t>(1, scale_.Of(forest).median_ns));
  }

  int64_t OffsetOf(const std::string& node) const {
    const auto found = std::ranges::find(truth_.nodes, node, &dataset::TruthNode::name);
    return found == truth_.nodes.end() ? 0 : found->clock_offset_ns;
  }

  void CollectWindow(const TruthPlan& plan) {
    Window window{INT64_MAX, INT64_MIN};
    for (const auto& edge : truth_.edges) {
      if (edge.plan_id != plan.plan_id) continue;
      (edge.begin ? window.first : window.second) = edge.time_ns - OffsetOf(edge.node);
    }
    if (window.first < window.second) windows_[plan.plan_id] = window;
  }

  static double ShareIn(const LoadRequest& request, const Window& window) {
    const double inside = static_cast<double>(std::min(request.end_ns, window.second) -
                                              std::max(request.first_token_ns, window.first));
    const double whole = static_cast<double>(request.end_ns - request.first_token_ns);
    return whole > 0 ? std::max(0.0, inside / whole) : 0;
  }
  double ShareInStretches(const LoadRequest& request) const {
    double share = 0;
    for (const auto& [plan, window] : windows_) share += ShareIn(request, window);
    return share;
  }

  double TpotRatio(const TruthPlan& plan) const {
    std::vector<double> inside;
    for (const LoadRequest& request : requests_) {
      if (ShareIn(request, windows_.at(plan.plan_id)) >= kRequestShare)
        inside.push_back(static_cast<double>(request.tpot_ns));
    }
    return MedianOf(std::move(inside)) / MedianOf(healthy_tpot_);
  }

  /// Median length of an action over the planned one, where the kind has a length.
  double SizeRatio(const TruthPlan& plan) const {
    for (const char* name : {"delay_ns", "mean_delay_ns", "pulse_ns"}) {
      const auto found = plan.magnitude.find(name);
      if (found == plan.magnitude.end() || found->second <= 0) continue;
      std::vector<double> lengths;
      for (const auto& action : truth_.actions) {
        if (action.plan_id == plan.plan_id)
          lengths.push_back(static_cast<double>(action.end_ns - action.begin_ns));
      }
      const bool is_mean = std::string_view(name) == "mean_delay_ns";
      return (is_mean ? MeanOf(lengths) : MedianOf(lengths)) / found->second;
    }
    return kNaN;
  }

  StretchEffect MeasureOne(const TruthPlan& plan) const {
    StretchEffect effect{.engine = steps_.engine,
                         .kind = plan.kind,
                         .level = plan.level,
                         .placebo = plan.placebo,
                         .acted = plan.acted,
                         .planned_us = plan.step_us,
                         .size_ratio = SizeRatio(plan),
                         .tpot_ratio = TpotRatio(plan)};
    std::vector<double> inside;
    double recorded_ns = 0, elsewhere_ns = 0;
    Window recovery{INT64_MAX, INT64_MIN};
    for (std::size_t i = 0; i < steps_.labels.size(); ++i) {
      const StepLabel& label = steps_.labels[i];
      if (label.stretch != plan.stretch) continue;
      effect.positive += label.status == dataset::LabelStatus::kPositive;
      effect.grey += label.status == dataset::LabelStatus::kGrey;
      const auto& step = steps_.run.steps[i];
      if ((label.reasons & dataset::kReasonRecovery) != 0) {
        recovery = {std::min(recovery.first, step.begin_ns),
                    std::max(recovery.second, step.end_ns)};
        continue;
      }
      if ((label.reasons & dataset::kReasonEdge) != 0) continue;
      inside.push_back(Ratio(i));
      AddRecorded(plan, i, effect, recorded_ns, elsewhere_ns);
    }
    effect.recovery_ms = recovery.first < recovery.second
                             ? static_cast<double>(recovery.second - recovery.first) * 1e-6
                             : 0;
    effect.elsewhere = recorded_ns > 0 ? elsewhere_ns / recorded_ns : 0;
    Compare(inside, static_cast<uint64_t>(plan.plan_id), effect);
    return effect;
  }

  void AddRecorded(const TruthPlan& plan, std::size_t step, StretchEffect& effect,
                   double& recorded_ns, double& elsewhere_ns) const {
    const StepLabel& label = steps_.labels[step];
    const auto& forest = steps_.run.steps[step];
    int64_t most_ns = 0;
    for (std::size_t r = 0; r < label.recorded_ns.size(); ++r) {
      most_ns = std::max(most_ns, label.recorded_ns[r]);
      recorded_ns += static_cast<double>(label.recorded_ns[r]);
      if (forest.ranks[r] != plan.culprit_rank)
        elsewhere_ns += static_cast<double>(label.recorded_ns[r]);
    }
    if (most_ns == 0) return;
    effect.recorded_us.push_back(static_cast<double>(most_ns) * kNs);
    effect.extra_us.push_back(
        static_cast<double>(DurationNs(forest) - scale_.Of(forest).median_ns) * kNs);
  }

  void Compare(const std::vector<double>& inside, uint64_t seed, StretchEffect& effect) const {
    effect.step_ratio = effect.mean_ratio = kNaN;
    if (inside.empty() || healthy_.empty()) return;
    effect.step_ratio = MedianOf(inside);
    effect.mean_ratio = MeanOf(inside) / MeanOf(healthy_);
    const Interval interval = Resample(seed, [&](Random& random) {
      return BlockMean(inside, random) / BlockMean(healthy_, random);
    });
    effect.visible = interval.low > 1 || interval.high < 1;
  }

  const StepsFile& steps_;
  const Truth& truth_;
  std::span<const LoadRequest> requests_;
  dataset::StepScale scale_;
  std::vector<double> healthy_;        // ratios of healthy steps, in order
  std::vector<double> healthy_tpot_;   // ns
  std::map<int32_t, Window> windows_;  // of stretches by plan, on the base clock
};

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
  return MedianOf(std::move(recorded));
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
  return [of](const Stretches& stretches) { return MedianOf(Each(stretches, of)); };
}
std::function<double(const Stretches&)> MeanBy(Of of) {
  return [of](const Stretches& stretches) { return MeanOf(Each(stretches, of)); };
}
std::function<double(const Stretches&)> SumBy(Of of) {
  return [of](const Stretches& stretches) {
    return MeanOf(Each(stretches, of)) * static_cast<double>(stretches.size());
  };
}

double StepRatio(const Stretches& stretches) {
  return MedianOf(Each(stretches, [](const StretchEffect& s) { return s.step_ratio; }));
}
double MeanRatio(const Stretches& stretches) {
  return MeanOf(Each(stretches, [](const StretchEffect& s) { return s.mean_ratio; }));
}
double ActedShare(const Stretches& stretches) {
  return MeanOf(Each(stretches, [](const StretchEffect& s) { return s.acted ? 1.0 : 0.0; }));
}
double VisibleShare(const Stretches& stretches) {
  return MeanOf(Each(stretches, [](const StretchEffect& s) { return s.visible ? 1.0 : 0.0; }));
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

std::vector<StretchEffect> MeasureStretches(const StepsFile& steps, const Truth& truth,
                                            std::span<const LoadRequest> requests) {
  return RunEffects(steps, truth, requests).Measure();
}

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

std::optional<WholeRun> AsWholeRun(const StepsFile& steps, const Truth& truth,
                                   std::span<const LoadRequest> requests) {
  const bool healthy = truth.plans.empty();
  if (!healthy && !IsByRun(truth.plans.front())) return {};
  WholeRun run{.engine = steps.engine};
  if (!healthy) {
    run.kind = truth.plans.front().kind;
    run.level = truth.plans.front().level;
  }
  for (const auto& step : steps.run.steps)
    run.step_ms.push_back(static_cast<double>(DurationNs(step)) * 1e-6);
  for (const LoadRequest& request : requests) {
    run.tpot_ms.push_back(static_cast<double>(request.tpot_ns) * 1e-6);
    run.request_ms.push_back(static_cast<double>(request.end_ns - request.begin_ns) * 1e-6);
  }
  return run;
}

std::vector<Cell> ConfigurationCells(std::span<const WholeRun> runs) {
  using Of = std::vector<double> WholeRun::*;
  std::map<std::tuple<std::string, std::string, int32_t>, std::vector<const WholeRun*>> groups;
  for (const WholeRun& run : runs) groups[{run.engine, run.kind, run.level}].push_back(&run);
  const auto median = [&](const std::vector<const WholeRun*>& group, Of of) {
    std::vector<double> medians;
    for (const WholeRun* run : group) medians.push_back(MedianOf(run->*of));
    return MedianOf(std::move(medians));
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

std::vector<LoadRequest> ReadLoadRequests(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("{}: cannot be read", path.string()));
  std::vector<LoadRequest> requests;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) throw DataError(fmt::format("{}: a line is no object", path.string()));
    if (json.contains("summary") || json.value("tpot_ns", int64_t{-1}) <= 0) continue;
    requests.push_back(
        {.first_token_ns = json.at("begin_ns").get<int64_t>() + json.at("ttft_ns").get<int64_t>(),
         .end_ns = json.at("end_ns").get<int64_t>(),
         .tpot_ns = json.at("tpot_ns").get<int64_t>()});
  }
  return requests;
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
