#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/dataset/predictions_file.h"
#include "src/dataset/steps_file.h"
#include "src/diagnose/evidence.h"
#include "src/diagnose/late_starters.h"
#include "src/diagnose/not_looked_at.h"
#include "src/diagnose/verdict.h"
#include "src/localize/baseline.h"

namespace teller::diagnose {

/// What the steps of a run were held against.
enum class Basis : uint8_t {
  kBaseline = 0,  ///< healthy runs
  kSteps = 1,     ///< the run's own quieter steps
  kInside = 2     ///< other ranks and other instances inside the trace: it has few steps
};
std::string_view BasisName(Basis basis);  ///< 'baseline', 'steps', 'inside'

/// Suspects of every step, and which steps stand out by them alone.
struct Localization {
  Basis basis = Basis::kInside;
  std::vector<localize::StepSuspects> suspects;  ///< by position in `steps.run.steps`
  std::vector<uint8_t> abnormal;                 ///< by the same
  bool doubtful = false;  ///< something stands out that the basis cannot settle, or it had too
                          ///< little to compare: finding nothing is no proof of health
};

/// Holds every step against healthy runs. Of the steps called abnormal at most `false_share` may be
/// healthy (AbnormalSteps).
Localization LocalizeAgainst(const dataset::StepsFile& steps, const localize::Baseline& baseline,
                             double false_share);

/// The same without a baseline, which is weaker. Where at least 30 steps have a forest, the quieter
/// 60 % of them serve as healthy and p-values come from how far a step's score stands from all
/// scores' median in their spread (log-normal): what is slow in many steps is not seen, and finding
/// nothing is doubtful. With fewer steps, ContrastInside.
Localization LocalizeWithin(const dataset::StepsFile& steps, double false_share);

/// What is said of one run.
struct RunDiagnosis {
  std::string run_id;
  Basis basis = Basis::kInside;
  std::vector<StepDiagnosis> steps;  ///< all that have a forest, in time order
  Verdict verdict = Verdict::kUndecided;
  std::vector<LateStarter> late_starters;  ///< ranks that others waited for, most first
  std::vector<std::string> notes;          ///< how far the answer carries
  std::vector<NotLookedAt> not_looked_at;
};

/// Diagnoses every step. A step that `predictions` covers with a probability is abnormal from .5
/// on; the others as `localization` says.
RunDiagnosis DiagnoseRun(const dataset::StepsFile& steps, const Localization& localization,
                         const dataset::PredictionsFile* predictions, EvidenceOptions options = {});

}  // namespace teller::diagnose
