#pragma once

#include <cstddef>
#include <string>

#include "src/dataset/steps_file.h"
#include "src/diagnose/diagnose_run.h"

namespace teller::diagnose {

struct HtmlOptions {
  std::string title;           ///< what was diagnosed
  std::size_t steps = 12;      ///< shown with their timeline, at most
  std::size_t nodes = 60'000;  ///< over these, at most; shorter ones are left out, and it says so
  std::size_t overview = 20'000;  ///< steps of the overview, at most
};

/// The report as one page that needs no network: verdict, suspects, a timeline of the suspicious
/// steps across ranks and layers, their call chains and log lines, and what was not looked at.
/// Under 10 MB by the limits of `options`. Where no step is abnormal, the one with the highest
/// score is shown.
std::string ReportHtml(const RunDiagnosis& run, const dataset::StepsFile& steps,
                       const HtmlOptions& options = {});

}  // namespace teller::diagnose
