#include "src/experiment/fault_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"
#include "src/dataset/step_scale.h"
#include "src/experiment/metrics.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

using dataset::StepLabel;
using dataset::StepsFile;
using dataset::Truth;
using dataset::TruthPlan;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 400;
/// Steps in a row depend on each other: they are drawn in blocks of so many.
constexpr std::size_t kBlockSteps = 10;
constexpr double kNs = 1e-3;  // to microseconds
/// A request counts for a stretch, or for healthy time, where so much of it lies there.
constexpr double kRequestShare = 0.8;

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
    return Median(std::move(inside)) / Median(healthy_tpot_);
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
      return (is_mean ? Mean(lengths) : Median(lengths)) / found->second;
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
    effect.step_ratio = Median(inside);
    effect.mean_ratio = Mean(inside) / Mean(healthy_);
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

}  // namespace

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

std::vector<StretchEffect> MeasureStretches(const StepsFile& steps, const Truth& truth,
                                            std::span<const LoadRequest> requests) {
  return RunEffects(steps, truth, requests).Measure();
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

std::vector<LoadRequest> ReadLoadRequests(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw DataError(fmt::format("{}: cannot be read", path.string()));
  std::vector<LoadRequest> requests;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) throw DataError(fmt::format("{}: a line is no object", path.string()));
    try {
      if (json.contains("summary") || json.value("tpot_ns", int64_t{-1}) <= 0) continue;
      const auto begin_ns = json.at("begin_ns").get<int64_t>();
      requests.push_back({.begin_ns = begin_ns,
                          .first_token_ns = begin_ns + json.at("ttft_ns").get<int64_t>(),
                          .end_ns = json.at("end_ns").get<int64_t>(),
                          .tpot_ns = json.at("tpot_ns").get<int64_t>()});
    } catch (const nlohmann::json::exception&) {
      throw DataError(fmt::format("{}: a request lacks one of its times", path.string()));
    }
  }
  return requests;
}

}  // namespace teller::experiment
