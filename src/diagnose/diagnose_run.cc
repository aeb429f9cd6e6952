#include "src/diagnose/diagnose_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "src/localize/localizer.h"
#include "src/localize/robust.h"

namespace teller::diagnose {
namespace {

constexpr std::size_t kFewestSteps = 30;  // to be compared with each other
constexpr double kQuietShare = 0.6;  // of the steps, taken as healthy where there is no baseline
constexpr float kLeastScore = 0.1f;

std::vector<const reconstruct::StepForest*> CalibrationForests(const dataset::StepsFile& steps) {
  std::vector<const reconstruct::StepForest*> forests;
  for (std::size_t s = 0; s < steps.run.steps.size(); ++s) {
    const bool calibration = (steps.labels[s].reasons & dataset::kReasonCalibration) != 0;
    if (steps.forest[s] && calibration) forests.push_back(&steps.run.steps[s]);
  }
  return forests;
}

localize::Baseline Fit(const dataset::StepsFile& steps, std::vector<uint8_t> healthy) {
  const std::size_t count = healthy.size();
  const localize::TrainingRun run{&steps.run, std::move(healthy), std::vector<uint8_t>(count, 0),
                                  dataset::ClockErrorNs(steps)};
  return localize::FitBaseline(std::span(&run, 1));
}

/// Marks the steps with the lowest scores.
std::vector<uint8_t> Quietest(const dataset::StepsFile& steps,
                              const std::vector<localize::StepSuspects>& suspects) {
  std::vector<float> scores;
  for (std::size_t s = 0; s < suspects.size(); ++s) {
    if (steps.forest[s]) scores.push_back(suspects[s].score);
  }
  const float highest = localize::Quantile(scores, kQuietShare);
  std::vector<uint8_t> quiet(suspects.size());
  for (std::size_t s = 0; s < suspects.size(); ++s)
    quiet[s] = steps.forest[s] && suspects[s].score <= highest;
  return quiet;
}

/// How far scores stand from their median, in their spread, as p-values of a log-normal.
class ContrastScale {
 public:
  explicit ContrastScale(std::vector<float> scores) {
    for (float& score : scores) score = Log(score);
    stat_ = localize::FitRobust(scores);
    stat_.spread = std::max(stat_.spread, 0.05f);
  }
  float PValue(float score) const {
    return static_cast<float>(
        0.5 * std::erfc((Log(score) - stat_.median) / stat_.spread / std::sqrt(2.0)));
  }

 private:
  static float Log(float score) { return std::log(std::max(score, kLeastScore)); }
  localize::RobustStat stat_;
};

/// The model's answers by engine step.
std::map<int64_t, const dataset::StepPrediction*> ByStep(
    const dataset::PredictionsFile* predictions, const std::string& run_id) {
  std::map<int64_t, const dataset::StepPrediction*> by_step;
  if (predictions == nullptr) return by_step;
  for (const auto& step : predictions->steps) {
    if (step.run_id == run_id) by_step[step.engine_step] = &step;
  }
  return by_step;
}

/// Healthy where nothing was found and the p-values could have shown it: a single faulty step has
/// to reach the level.
Verdict VerdictOf(const RunDiagnosis& run, std::span<const float> p_values, double false_share) {
  if (std::any_of(run.steps.begin(), run.steps.end(),
                  [](const auto& step) { return step.abnormal; })) {
    return Verdict::kAbnormal;
  }
  if (p_values.empty()) return Verdict::kUndecided;
  const float least = *std::min_element(p_values.begin(), p_values.end());
  const auto striking = std::count(p_values.begin(), p_values.end(), least);
  // As many steps as chance gives at this p-value, or fewer, say nothing.
  const double by_chance = least * static_cast<double>(p_values.size());
  const bool striking_but_few = static_cast<double>(striking) > 3 * by_chance + 3;
  return striking_but_few && least > false_share / static_cast<double>(p_values.size())
             ? Verdict::kUndecided
             : Verdict::kHealthy;
}

void AddNotes(const dataset::StepsFile& steps, RunDiagnosis& run) {
  const auto absent = std::count(steps.forest.begin(), steps.forest.end(), uint8_t{0});
  if (absent > 0)
    run.notes.push_back(std::to_string(absent) + " steps have no forest and were not looked at");
  if (!steps.clock_aligned && !steps.run.steps.empty() &&
      steps.run.steps.front().ranks.size() > 1) {
    run.notes.push_back(
        "the ranks' clocks could not be related: waits between ranks are not judged");
  }
  const auto undecided = std::count_if(run.steps.begin(), run.steps.end(),
                                       [](const auto& s) { return s.abnormal && s.undecided; });
  if (undecided > 0) {
    run.notes.push_back(
        "in " + std::to_string(undecided) +
        " abnormal steps it cannot be told which rank started last within the clock's error");
  }
}

}  // namespace

std::vector<localize::StepSuspects> LocalizeRun(const dataset::StepsFile& steps,
                                                const localize::Baseline& baseline) {
  localize::RunScale scale;
  if (const auto calibration = CalibrationForests(steps); !calibration.empty()) {
    scale = localize::Localizer(baseline, steps.run.symbols).MeasureScale(calibration);
  }
  localize::Localizer localizer(baseline, steps.run.symbols, std::move(scale),
                                {.clock_error_ns = dataset::ClockErrorNs(steps)});
  std::vector<localize::StepSuspects> suspects(steps.run.steps.size());
  for (std::size_t s = 0; s < suspects.size(); ++s) {
    if (!steps.forest[s]) continue;
    suspects[s] = localizer.Localize(steps.run.steps[s]);
    suspects[s].node_residual = {};  // one step's is small, a run's is not
  }
  return suspects;
}

std::optional<std::vector<localize::StepSuspects>> LocalizeByContrast(
    const dataset::StepsFile& steps) {
  const std::vector<uint8_t> all(steps.forest.begin(), steps.forest.end());
  if (static_cast<std::size_t>(std::count(all.begin(), all.end(), 1)) < kFewestSteps) return {};
  const std::vector<uint8_t> quiet = Quietest(steps, LocalizeRun(steps, Fit(steps, all)));
  auto suspects = LocalizeRun(steps, Fit(steps, quiet));
  std::vector<float> scores;
  for (std::size_t s = 0; s < suspects.size(); ++s) {
    if (steps.forest[s]) scores.push_back(suspects[s].score);
  }
  const ContrastScale scale(std::move(scores));
  for (localize::StepSuspects& step : suspects) {
    step.p_value = scale.PValue(step.score);
    for (localize::Candidate& candidate : step.candidates)
      candidate.p_value = scale.PValue(candidate.z);
  }
  return suspects;
}

RunDiagnosis DiagnoseRun(const dataset::StepsFile& steps,
                         const std::vector<localize::StepSuspects>& suspects,
                         const dataset::PredictionsFile* predictions,
                         const DiagnoseOptions& options) {
  RunDiagnosis run;
  run.run_id = steps.run.run_id;
  std::vector<std::size_t> looked_at;
  std::vector<float> p_values;
  for (std::size_t s = 0; s < steps.run.steps.size(); ++s) {
    if (!steps.forest[s]) continue;
    looked_at.push_back(s);
    p_values.push_back(suspects[s].p_value);
  }
  const std::vector<uint8_t> by_localizer = AbnormalSteps(p_values, options.false_share);
  const auto answers = ByStep(predictions, run.run_id);
  const std::vector<std::string> no_kinds;
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    const auto& forest = steps.run.steps[looked_at[i]];
    const auto found = answers.find(forest.engine_step);
    const dataset::StepPrediction* answer = found == answers.end() ? nullptr : found->second;
    const bool judged = answer != nullptr && !std::isnan(answer->probability);
    const bool abnormal = judged ? answer->probability >= 0.5f : by_localizer[i] != 0;
    run.steps.push_back(
        GatherEvidence(forest, steps.run.symbols, suspects[looked_at[i]], abnormal, answer,
                       predictions != nullptr ? predictions->kinds : no_kinds, options.evidence));
  }
  run.verdict = VerdictOf(run, p_values, options.false_share);
  if (options.contrast && run.verdict == Verdict::kHealthy) run.verdict = Verdict::kUndecided;
  AddNotes(steps, run);
  return run;
}

}  // namespace teller::diagnose
