#pragma once

#include <cstdint>
#include <vector>

#include "src/dataset/steps_file.h"
#include "src/localize/candidates.h"

namespace teller::diagnose {

struct InsideOptions {
  double abnormal_share = 0.05;  ///< of a step: what one suspect must have cost to make it abnormal
  double least_share = 0.01;     ///< of a step: what costs less is no suspect
  std::size_t suspects = 32;     ///< at most so many a step
};

/// A trace held against itself: what its parts say of each other.
struct InsideContrast {
  /// By step. Candidates' z and the score are what the suspect cost in percent of the step;
  /// p-values are NaN, for none is known.
  std::vector<localize::StepSuspects> suspects;
  std::vector<uint8_t> abnormal;  ///< by step
  /// By step: an operator stands out that other instances of it cannot settle, since they stand at
  /// other places of the step.
  std::vector<uint8_t> doubtful;
  double compared_share = 0;  ///< of all readings, those that had anything to be held against
};

/// For traces of few steps, without any knowledge of healthy times. Three things are looked for:
/// - ranks that enter collectives late; what they did before is blamed where it explains it, and a
///   wait never is (FindLateStarts);
/// - transfers far longer than others of their size in the trace, though all ranks had started: the
///   link;
/// - operators whose instances take far longer than the same ones on other ranks, in other steps
/// or,
///   where these are missing, elsewhere in the trace (Expectations).
/// Steps without a forest give nothing. O(readings).
InsideContrast ContrastInside(const dataset::StepsFile& steps, const InsideOptions& options = {});

}  // namespace teller::diagnose
