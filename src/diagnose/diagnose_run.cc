#include "src/diagnose/diagnose_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "src/diagnose/inside_contrast.h"
#include "src/localize/localizer.h"
#include "src/localize/robust.h"

namespace teller::diagnose {
namespace {

constexpr std::size_t kFewestSteps = 30;  // to be compared with each other
constexpr double kQuietShare = 0.6;  // of the steps, taken as healthy where there is no baseline
constexpr float kLeastScore = 0.1f;
constexpr double kLeastComparedShare = 0.5;  // of the readings, to call a trace healthy

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

/// The localiser's score of every step with a forest, by position in `steps.run.steps`; 0
/// elsewhere.
std::vector<localize::StepSuspects> LocalizeSteps(const dataset::StepsFile& steps,
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

/// Nothing was found: could the p-values have shown it? A single faulty step has to reach the
/// level.
bool TooFewToShow(std::span<const float> p_values, double false_share) {
  if (p_values.empty()) return true;
  const float least = *std::min_element(p_values.begin(), p_values.end());
  const auto striking = std::count(p_values.begin(), p_values.end(), least);
  // As many steps as chance gives at this p-value, or fewer, say nothing.
  const double by_chance = least * static_cast<double>(p_values.size());
  const bool striking_but_few = static_cast<double>(striking) > 3 * by_chance + 3;
  return striking_but_few && least > false_share / static_cast<double>(p_values.size());
}

/// Which steps stand out by their p-values.
Localization Judge(const dataset::StepsFile& steps, Basis basis,
                   std::vector<localize::StepSuspects> suspects, double false_share) {
  std::vector<float> p_values;
  for (std::size_t s = 0; s < suspects.size(); ++s) {
    if (steps.forest[s]) p_values.push_back(suspects[s].p_value);
  }
  const std::vector<uint8_t> stands_out = AbnormalSteps(p_values, false_share);
  Localization found{.basis = basis, .suspects = std::move(suspects)};
  std::size_t next = 0;
  for (const uint8_t forest : steps.forest)
    found.abnormal.push_back(forest ? stands_out[next++] : uint8_t{0});
  // The run's own steps prove nothing of what is slow in many of them.
  found.doubtful = basis == Basis::kSteps || TooFewToShow(p_values, false_share);
  return found;
}

/// Contrast across steps; see LocalizeWithin.
std::vector<localize::StepSuspects> LocalizeByContrast(const dataset::StepsFile& steps) {
  const std::vector<uint8_t> all(steps.forest.begin(), steps.forest.end());
  const std::vector<uint8_t> quiet = Quietest(steps, LocalizeSteps(steps, Fit(steps, all)));
  auto suspects = LocalizeSteps(steps, Fit(steps, quiet));
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

Localization LocalizeInside(const dataset::StepsFile& steps) {
  InsideContrast inside = ContrastInside(steps);
  const bool any_doubt = std::any_of(inside.doubtful.begin(), inside.doubtful.end(),
                                     [](uint8_t doubt) { return doubt != 0; });
  return {.basis = Basis::kInside,
          .suspects = std::move(inside.suspects),
          .abnormal = std::move(inside.abnormal),
          .doubtful = any_doubt || inside.compared_share < kLeastComparedShare};
}

Verdict VerdictOf(const RunDiagnosis& run, bool doubtful) {
  const auto abnormal = [](const StepDiagnosis& step) { return step.abnormal; };
  if (std::any_of(run.steps.begin(), run.steps.end(), abnormal)) return Verdict::kAbnormal;
  return doubtful || run.steps.empty() ? Verdict::kUndecided : Verdict::kHealthy;
}

void AddNotes(const dataset::StepsFile& steps, RunDiagnosis& run) {
  if (run.basis == Basis::kSteps) {
    run.notes.emplace_back(
        "no --baseline: steps are compared with the run's own quieter steps, which is weaker; "
        "what is slow in most steps is not seen");
  }
  if (run.basis == Basis::kInside) {
    run.notes.emplace_back(
        "no --baseline and few steps: ranks and repeated operators are compared with each other "
        "inside the trace, which is weaker; what is slow everywhere is not seen");
  }
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

std::string_view BasisName(Basis basis) {
  static constexpr std::string_view kNames[] = {"baseline", "steps", "inside"};
  return kNames[static_cast<std::size_t>(basis)];
}

Localization LocalizeAgainst(const dataset::StepsFile& steps, const localize::Baseline& baseline,
                             double false_share) {
  return Judge(steps, Basis::kBaseline, LocalizeSteps(steps, baseline), false_share);
}

Localization LocalizeWithin(const dataset::StepsFile& steps, double false_share) {
  const auto forests = std::count(steps.forest.begin(), steps.forest.end(), uint8_t{1});
  if (static_cast<std::size_t>(forests) < kFewestSteps) return LocalizeInside(steps);
  return Judge(steps, Basis::kSteps, LocalizeByContrast(steps), false_share);
}

RunDiagnosis DiagnoseRun(const dataset::StepsFile& steps, const Localization& localization,
                         const dataset::PredictionsFile* predictions, EvidenceOptions options) {
  options.waits = steps.clock_aligned;
  RunDiagnosis run{.run_id = steps.run.run_id, .basis = localization.basis};
  const auto answers = ByStep(predictions, run.run_id);
  const std::vector<std::string> no_kinds;
  const LogForms forms(steps.run);
  for (std::size_t s = 0; s < steps.run.steps.size(); ++s) {
    if (!steps.forest[s]) continue;
    const auto& forest = steps.run.steps[s];
    const auto found = answers.find(forest.engine_step);
    const dataset::StepPrediction* answer = found == answers.end() ? nullptr : found->second;
    const bool judged = answer != nullptr && !std::isnan(answer->probability);
    const bool abnormal = judged ? answer->probability >= 0.5f : localization.abnormal[s] != 0;
    run.steps.push_back(
        GatherEvidence(forest, steps.run.symbols, localization.suspects[s], abnormal, answer,
                       predictions != nullptr ? predictions->kinds : no_kinds, forms, options));
  }
  run.verdict = VerdictOf(run, localization.doubtful);
  run.late_starters = FindLateStarters(steps);
  run.not_looked_at = FindNotLookedAt(steps.stats);
  AddNotes(steps, run);
  return run;
}

}  // namespace teller::diagnose
