#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/diagnose/diagnose_run.h"

namespace teller::diagnose {

/// Parts of the JSON of docs/design.md, section 12, that the reports share.
nlohmann::json StepJson(const StepDiagnosis& step);
nlohmann::json LateStartersJson(const RunDiagnosis& run);
nlohmann::json NotLookedAtJson(const RunDiagnosis& run);

}  // namespace teller::diagnose
