#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/steps_file.h"

namespace teller::diagnose {

/// A rank that others waited for, over a whole run.
struct LateStarter {
  RankId rank = kNoRank;
  int64_t collectives = 0;   ///< it entered last, by more than the clock's error
  int64_t of = 0;            ///< matched collectives of the run
  int64_t late_ns = 0;       ///< summed; each against the median of the other ranks
  int64_t longest_ns = 0;    ///< the largest of these
  int64_t longest_step = 0;  ///< engine step of the largest
  std::string collective;    ///< entered at the largest
  std::string cause;         ///< operator that made it late most, empty: nothing it did explains it
};

/// Whether the only step is all that was recorded: no range of the trace is an engine's step.
bool IsWholeTrace(const dataset::StepsFile& steps);

/// Ranks by how much time they cost the others, most first. Empty where clocks are not aligned or
/// there is one rank.
std::vector<LateStarter> FindLateStarters(const dataset::StepsFile& steps);

}  // namespace teller::diagnose
