#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "src/core/error.h"
#include "src/localize/baseline.h"
#include "src/localize/localizer.h"
#include "src/localize/scorer.h"

namespace teller::localize {
namespace {

using reconstruct::StepForest;

constexpr int kRounds = 2;  // of fitting rows and measuring the runs' scales in turn
constexpr float kParentWeight =
    10;  // samples' worth of pull of a row's spread towards the wider row's
constexpr float kHealthyQuantile =
    4;  // what the 99th percentile of every channel's healthy maxima is scaled to
constexpr float kLeastQuantile = 2;  // a channel without noise is not blown up

/// The steps of one run that a fit looks at.
struct RunView {
  const reconstruct::RunForest* run = nullptr;
  std::vector<const StepForest*> healthy, calibration;
  RunScale scale;
  int64_t clock_error_ns = 0;
};

bool Usable(const StepForest& step) { return !step.nodes.empty() && !step.ranks.empty(); }

std::vector<RunView> ViewRuns(std::span<const TrainingRun> runs, int64_t max_nodes) {
  std::vector<RunView> views;
  std::size_t steps = 0;
  int64_t nodes = 0;
  for (const TrainingRun& run : runs) {
    RunView& view = views.emplace_back();
    view.run = run.run;
    view.clock_error_ns = run.clock_error_ns;
    for (std::size_t s = 0; s < run.run->steps.size(); ++s) {
      const StepForest& step = run.run->steps[s];
      if (!Usable(step)) continue;
      if (s < run.calibration.size() && run.calibration[s]) view.calibration.push_back(&step);
      if (s < run.healthy.size() && run.healthy[s]) view.healthy.push_back(&step);
    }
    steps += view.healthy.size();
    for (const StepForest* step : view.healthy) nodes += static_cast<int64_t>(step->nodes.size());
  }
  if (steps == 0) {
    throw DataError("fitting a baseline: no healthy step with a forest in " +
                    std::to_string(runs.size()) + " runs");
  }
  const auto stride =
      static_cast<std::size_t>((nodes + max_nodes - 1) / std::max<int64_t>(1, max_nodes));
  for (RunView& view : views) {
    std::vector<const StepForest*> thinned;
    for (std::size_t i = 0; i < view.healthy.size(); i += stride)
      thinned.push_back(view.healthy[i]);
    view.healthy.swap(thinned);
  }
  return views;
}

/// All operators of the runs in text order, then one '(any)' a layer.
std::vector<BaselineOperator> CollectOperators(std::span<const RunView> views) {
  std::set<std::pair<std::string, trace::Layer>> seen;
  for (const RunView& view : views) {
    std::set<std::pair<SymbolId, trace::Layer>> of_run;
    for (const StepForest* step : view.healthy) {
      for (const auto& node : step->nodes) of_run.emplace(node.symbol, node.layer);
    }
    for (const auto& [symbol, layer] : of_run) {
      seen.emplace(view.run->symbols.View(StringId{static_cast<uint32_t>(symbol)}), layer);
    }
  }
  std::vector<BaselineOperator> operators;
  for (const auto& [symbol, layer] : seen) {
    if (symbol != kAnyOperator) operators.push_back({symbol, layer});
  }
  for (int layer = 0; layer < trace::kLayerCount; ++layer) {
    operators.push_back({kAnyOperator, static_cast<trace::Layer>(layer)});
  }
  return operators;
}

using Samples = std::map<RowKey, std::vector<float>>;

/// Log-times of all healthy steps by narrowest key, each run's shift taken off.
Samples CollectSamples(const Baseline& baseline, std::span<const RunView> views) {
  Samples samples;
  for (const RunView& view : views) {
    const OperatorTable table(baseline, view.run->symbols);
    std::map<std::tuple<int32_t, int32_t, Measure>, float> shift;
    for (const auto& row : view.scale.rows) shift[{row.rank, row.op, row.measure}] = row.shift;
    for (const StepForest* step : view.healthy) {
      const std::vector<int32_t> rank_of = RankPositions(*step);
      for (const Reading& reading : ReadStep(*step).readings) {
        const auto& node = step->nodes[Index(reading.node)];
        const int32_t op = table.Find(node.symbol, node.layer);
        const auto found = shift.find({rank_of[node.track], op, reading.measure});
        const float off = found == shift.end() ? 0 : found->second;
        samples[{op, reading.measure, std::min(reading.occurrence, kMaxOccurrence),
                 static_cast<int32_t>(step->phase), BatchBucket(step->batch_size)}]
            .push_back(LogTime(reading.observed_ns) - off);
      }
    }
  }
  return samples;
}

/// Pools samples into wider keys.
template <typename Widen>
Samples Pool(const Samples& samples, Widen widen) {
  Samples pooled;
  for (const auto& [key, values] : samples) {
    auto& all = pooled[widen(key)];
    all.insert(all.end(), values.begin(), values.end());
  }
  return pooled;
}

/// Rows of all widths, from wide to narrow; a row's spread is pulled towards that of the wider one.
class RowFitter {
 public:
  RowFitter(const std::vector<BaselineOperator>& operators, int min_samples)
      : operators_(operators), min_samples_(static_cast<std::size_t>(min_samples)) {}

  std::vector<BaselineRow> Fit(const Samples& narrow) {
    Samples by_instance = Pool(narrow, [](RowKey k) { return k.bucket = -1, k; });
    Samples by_bucket = Pool(narrow, [](RowKey k) { return k.occurrence = -1, k; });
    Samples by_phase = Pool(by_bucket, [](RowKey k) { return k.bucket = -1, k; });
    Samples by_operator = Pool(by_phase, [](RowKey k) { return k.phase = -1, k; });
    Samples by_layer = Pool(by_operator, [this](RowKey k) { return k.op = AnyOf(k.op), k; });
    Add(by_layer, 1, [](RowKey k) { return k; });
    Add(by_operator, 1, [this](RowKey k) { return k.op = AnyOf(k.op), k; });
    Add(by_phase, min_samples_, [](RowKey k) { return k.phase = -1, k; });
    Add(by_bucket, min_samples_, [](RowKey k) { return k.bucket = -1, k; });
    Add(by_instance, min_samples_, [](RowKey k) { return k.occurrence = -1, k; });
    Samples copy = narrow;
    Add(copy, min_samples_, [](RowKey k) { return k.bucket = -1, k; });
    std::vector<BaselineRow> rows;
    for (const auto& [key, stat] : fitted_) rows.push_back({key, stat});
    return rows;
  }

 private:
  int32_t AnyOf(int32_t op) const {
    const auto layer = static_cast<std::size_t>(operators_[static_cast<std::size_t>(op)].layer);
    return static_cast<int32_t>(operators_.size() - trace::kLayerCount + layer);
  }
  template <typename Widen>
  void Add(Samples& samples, std::size_t min_samples, Widen widen) {
    for (auto& [key, values] : samples) {
      if (values.size() < min_samples) continue;
      RobustStat stat = FitRobust(values);
      const auto wider = fitted_.find(widen(key));
      if (wider != fitted_.end() && widen(key) != key) {
        const auto n = static_cast<float>(stat.count);
        // A wide row mixes instances, so it only ever widens a rare narrow one up to threefold.
        const float pull = std::min(wider->second.spread, 3 * stat.spread + 0.02f);
        stat.spread = (n * stat.spread + kParentWeight * pull) / (n + kParentWeight);
      }
      fitted_[key] = stat;
    }
  }

  const std::vector<BaselineOperator>& operators_;
  std::size_t min_samples_;
  std::map<RowKey, RobustStat> fitted_;
};

TailedStat FitTailed(std::vector<float>& values) {
  TailedStat stat{FitRobust(values)};
  if (values.empty()) return stat;
  stat.tail = (Quantile(values, 0.99) - stat.median) / std::max(stat.spread, 0.01f);
  return stat;
}

/// What healthy steps say of one operator and measure.
struct OperatorSamples {
  std::vector<float> ratio, typical, lower, contrast, node_z;
};

std::vector<OperatorRow> FitOperatorRows(const Baseline& baseline, std::span<const RunView> views) {
  std::map<std::pair<int32_t, Measure>, OperatorSamples> samples;
  for (const RunView& view : views) {
    Scorer scorer(baseline, view.run->symbols, view.scale);
    for (const StepForest* step : view.healthy) {
      const std::vector<NodeScore> nodes = scorer.ScoreNodes(*step).nodes;
      for (const NodeScore& node : nodes) {
        if (node.width == 0) continue;
        samples[{node.op, node.reading.measure}].node_z.push_back(node.residual / node.width);
      }
      for (const OperatorScore& op : scorer.ScoreOperators(*step, nodes)) {
        OperatorSamples& of = samples[{op.op, op.measure}];
        of.ratio.push_back(op.ratio);
        of.typical.push_back(op.typical);
        of.lower.push_back(op.lower);
        if (!std::isnan(op.contrast)) of.contrast.push_back(op.contrast);
      }
    }
  }
  std::vector<OperatorRow> rows;
  for (auto& [key, of] : samples) {
    OperatorRow row{.op = key.first, .measure = key.second};
    row.ratio = FitTailed(of.ratio);
    row.typical = FitTailed(of.typical);
    row.lower = FitTailed(of.lower);
    row.contrast = FitTailed(of.contrast);
    if (!of.node_z.empty()) row.node_tail = Quantile(of.node_z, 0.99);
    rows.push_back(row);
  }
  return rows;
}

void MeasureScales(const Baseline& baseline, std::vector<RunView>& views) {
  for (RunView& view : views) {
    Localizer localizer(baseline, view.run->symbols);
    view.scale = localizer.MeasureScale(view.calibration);
  }
}

/// Rows and operator rows; the views' scales are left as measured against them.
Baseline FitRows(std::vector<RunView>& views, const FitOptions& options) {
  Baseline baseline;
  baseline.operators = CollectOperators(views);
  for (RunView& view : views) view.scale = {};
  for (int round = 0; round < kRounds; ++round) {
    const Samples samples = CollectSamples(baseline, views);
    baseline.rows = RowFitter(baseline.operators, options.min_samples).Fit(samples);
    MeasureScales(baseline, views);
  }
  baseline.operator_rows = FitOperatorRows(baseline, views);
  MeasureScales(baseline, views);
  return baseline;
}

/// A fit and the runs it did not see.
struct Fold {
  std::vector<RunView> fitted, held_out;
  Baseline baseline;
};

std::vector<Fold> MakeFolds(const std::vector<RunView>& views, int folds) {
  std::vector<Fold> made;
  if (views.size() == 1) {  // one run: its halves in time
    Fold& fold = made.emplace_back();
    RunView first = views[0], second = views[0];
    const auto half = static_cast<std::ptrdiff_t>(views[0].healthy.size() / 2);
    first.healthy.resize(static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, half)));
    second.healthy.erase(second.healthy.begin(), second.healthy.begin() + half);
    fold.fitted = {first};
    fold.held_out = {second};
    return made;
  }
  const std::size_t count =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::max(2, folds)), 2, views.size());
  for (std::size_t f = 0; f < count; ++f) {
    Fold& fold = made.emplace_back();
    bool any = false;
    for (std::size_t v = 0; v < views.size(); ++v) {
      (v % count == f ? fold.held_out : fold.fitted).push_back(views[v]);
      any |= v % count != f && !views[v].healthy.empty();
    }
    if (!any) made.pop_back();
  }
  return made;
}

using ChannelMaxima = std::vector<std::vector<float>>;  // by channel: one value a held-out step

void AddChannelMaxima(Scorer& scorer, const StepForest& step, ChannelMaxima& maxima) {
  std::vector<float> most(kChannelCount, 0);
  const auto raise = [&most](Evidence evidence, Measure measure, float z) {
    float& at = most[ChannelOf(evidence, measure)];
    at = std::max(at, z);
  };
  const std::vector<NodeScore> nodes = scorer.ScoreNodes(step).nodes;
  for (const NodeScore& node : nodes) raise(Evidence::kNode, node.reading.measure, node.z);
  for (const OperatorScore& op : scorer.ScoreOperators(step, nodes)) {
    raise(Evidence::kOperator, op.measure, op.z);
    raise(Evidence::kTypical, op.measure, op.typical_z);
    raise(Evidence::kLower, op.measure, op.lower_z);
    raise(Evidence::kContrast, op.measure, op.contrast_z);
  }
  for (std::size_t c = 0; c < most.size(); ++c) maxima[c].push_back(most[c]);
}

std::vector<float> ScaleChannels(std::vector<Fold>& folds) {
  ChannelMaxima maxima(kChannelCount);
  for (Fold& fold : folds) {
    for (RunView& view : fold.held_out) {
      Scorer scorer(fold.baseline, view.run->symbols, view.scale);
      for (const StepForest* step : view.healthy) AddChannelMaxima(scorer, *step, maxima);
    }
  }
  std::vector<float> scale;
  for (std::vector<float>& values : maxima) {
    scale.push_back(
        values.empty() ? 1 : kHealthyQuantile / std::max(kLeastQuantile, Quantile(values, 0.99)));
  }
  return scale;
}

std::vector<float> HealthyMaxima(std::vector<Fold>& folds, const std::vector<float>& scale) {
  std::vector<float> maxima;
  for (Fold& fold : folds) {
    fold.baseline.channel_scale = scale;
    for (RunView& view : fold.held_out) {
      Localizer localizer(fold.baseline, view.run->symbols, view.scale,
                          {.clock_error_ns = view.clock_error_ns});
      for (const StepForest* step : view.healthy) maxima.push_back(localizer.Localize(*step).score);
    }
  }
  std::sort(maxima.begin(), maxima.end());
  return maxima;
}

}  // namespace

int32_t BatchBucket(int32_t batch_size) {
  int32_t bucket = 0;
  for (int32_t limit = 1; limit < batch_size && bucket < kMaxBucket; limit *= 2) ++bucket;
  return bucket;
}

float LogTime(int64_t ns) {
  return static_cast<float>(std::log(static_cast<double>(std::max<int64_t>(0, ns)) + 1000));
}

Baseline FitBaseline(std::span<const TrainingRun> runs, const FitOptions& options) {
  std::vector<RunView> views = ViewRuns(runs, options.max_nodes);
  std::vector<Fold> folds = MakeFolds(views, options.folds);
  for (Fold& fold : folds) {
    fold.baseline = FitRows(fold.fitted, options);
    MeasureScales(fold.baseline, fold.held_out);
  }
  Baseline baseline = FitRows(views, options);
  baseline.channel_scale = ScaleChannels(folds);
  baseline.healthy_maxima = HealthyMaxima(folds, baseline.channel_scale);
  return baseline;
}

void CheckBaseline(const Baseline& baseline) {
  const auto operators = static_cast<int32_t>(baseline.operators.size());
  const auto fail = [](const std::string& what) { throw DataError("baseline: " + what); };
  const auto finite = [](const RobustStat& stat) {
    return std::isfinite(stat.median) && std::isfinite(stat.spread) && stat.spread >= 0;
  };
  const RowKey* before = nullptr;
  for (const BaselineRow& row : baseline.rows) {
    if (row.key.op < 0 || row.key.op >= operators) fail("a row refers to no operator");
    if (static_cast<int>(row.key.measure) >= kMeasureCount) fail("a row has no known measure");
    if (before != nullptr && !(*before < row.key)) fail("rows are not in order of their keys");
    if (!finite(row.stat)) fail("a row's median or spread is not a finite number");
    before = &row.key;
  }
  for (const OperatorRow& row : baseline.operator_rows) {
    if (row.op < 0 || row.op >= operators) fail("an operator row refers to no operator");
    if (static_cast<int>(row.measure) >= kMeasureCount)
      fail("an operator row has no known measure");
    const bool tails = std::isfinite(row.ratio.tail) && std::isfinite(row.typical.tail) &&
                       std::isfinite(row.lower.tail) && std::isfinite(row.contrast.tail) &&
                       std::isfinite(row.node_tail);
    if (!tails || !finite(row.ratio) || !finite(row.typical) || !finite(row.lower) ||
        !finite(row.contrast)) {
      fail("an operator row is not finite");
    }
  }
  if (!baseline.channel_scale.empty() && baseline.channel_scale.size() != kChannelCount) {
    fail("expected " + std::to_string(kChannelCount) + " channel scales, found " +
         std::to_string(baseline.channel_scale.size()));
  }
  for (const float scale : baseline.channel_scale) {
    if (!std::isfinite(scale)) fail("a channel scale is not a finite number");
  }
  if (!std::is_sorted(baseline.healthy_maxima.begin(), baseline.healthy_maxima.end())) {
    fail("healthy maxima are not ascending");
  }
}

}  // namespace teller::localize
