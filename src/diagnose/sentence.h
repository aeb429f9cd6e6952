#pragma once

#include <string>

#include "src/diagnose/evidence.h"

namespace teller::diagnose {

/// What a step that is not abnormal is said to be.
inline constexpr const char* kNothingFound = "Nothing abnormal found.";

/// One to four sentences filled from the diagnosis alone: what was blamed, observed against
/// expected time, who waited, one log line, the model's kind. Nothing stands in it that the trace,
/// the baseline or the prediction does not hold; a part that is not known is left out.
std::string Explain(const StepDiagnosis& diagnosis);

}  // namespace teller::diagnose
