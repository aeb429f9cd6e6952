#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/diagnose/diagnose_run.h"

namespace teller::diagnose {

/// docs/design.md, section 12: {"steps":[...],"verdict","notes"}; one line. Candidates stand in
/// every step, evidence in abnormal ones.
std::string ReportJson(const RunDiagnosis& run);

/// Abnormal steps, worst first: by the model's probability where there is one, then by score.
std::vector<const StepDiagnosis*> WorstSteps(const RunDiagnosis& run);

/// The verdict as a sentence, ended by a newline; where it is undecided, what stands out most.
std::string Headline(const RunDiagnosis& run);

/// For a terminal: verdict, the operators blamed most, the worst `shown` steps with their
/// sentences, notes.
std::string ReportText(const RunDiagnosis& run, std::size_t shown = 10);

}  // namespace teller::diagnose
