#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/dataset/predictions_file.h"
#include "src/dataset/steps_file.h"
#include "src/diagnose/evidence.h"
#include "src/diagnose/verdict.h"
#include "src/localize/baseline.h"

namespace teller::diagnose {

struct DiagnoseOptions {
  double false_share = 0.1;  ///< of the steps called abnormal, at most so many may be healthy
  bool contrast =
      false;  ///< suspects are LocalizeByContrast's: finding nothing is then no proof of health
  EvidenceOptions evidence;
};

/// What is said of one run.
struct RunDiagnosis {
  std::string run_id;
  std::vector<StepDiagnosis> steps;  ///< all that have a forest, in time order
  Verdict verdict = Verdict::kUndecided;
  std::vector<std::string> notes;  ///< what was not looked at, and how far the answer carries
};

/// The localiser's score of every step with a forest, by position in `steps.run.steps`; 0
/// elsewhere.
std::vector<localize::StepSuspects> LocalizeRun(const dataset::StepsFile& steps,
                                                const localize::Baseline& baseline);

/// The same without a baseline: contrast across the steps inside the run. Its quieter 60 % serve as
/// healthy, and p-values come from how far a step's score stands from all scores' median in their
/// spread (log-normal). Weaker than a baseline of healthy runs: what is slow in most steps is not
/// seen. None where there are under 30 steps with a forest.
std::optional<std::vector<localize::StepSuspects>> LocalizeByContrast(
    const dataset::StepsFile& steps);

/// Diagnoses every step. A step that `predictions` covers with a probability is abnormal from .5
/// on; the others are judged by the localiser's p-values (AbnormalSteps).
RunDiagnosis DiagnoseRun(const dataset::StepsFile& steps,
                         const std::vector<localize::StepSuspects>& suspects,
                         const dataset::PredictionsFile* predictions,
                         const DiagnoseOptions& options = {});

}  // namespace teller::diagnose
