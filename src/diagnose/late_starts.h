#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/core/ids.h"
#include "src/localize/candidates.h"
#include "src/localize/readings.h"
#include "src/reconstruct/step_forest.h"

namespace teller::diagnose {

/// A collective of a step that some rank entered late. The others' waiting is that rank's doing,
/// however long their own records of the collective are.
struct LateStart {
  NodeId collective = kNoNode;  ///< the last starter's record
  RankId rank = kNoRank;        ///< the last starter
  int64_t late_ns = 0;          ///< how long after the median of the other ranks
  int64_t transfer_ns = 0;      ///< from its begin to the last end
  /// What held the rank up: of what it did since its previous collective, the time that exceeds the
  /// other ranks' most, if that explains a quarter of the lateness; before its first collective
  /// also the step's own begin (then `node` is the step's root and `observed_ns` how late it
  /// began).
  struct Cause {
    NodeId node = kNoNode;
    localize::Measure measure{};
    int64_t observed_ns = 0;
    int64_t expected_ns = 0;  ///< the other ranks' median at the same place
  };
  std::optional<Cause> cause;
};

struct LateStartOptions {
  int64_t least_ns = 0;  ///< causes are sought where a rank came at least so late
  /// False where a step is whatever was recorded: a rank whose recording only begins after the
  /// others had entered is then not called late.
  bool steps_begin_together = true;
};

/// Every matched collective of the step, in the order of its last starters' begins.
/// O(nodes) and, for each cause sought, O(readings of the rank).
std::vector<LateStart> FindLateStarts(const reconstruct::StepForest& step,
                                      const localize::StepReadings& readings,
                                      const LateStartOptions& options = {});

}  // namespace teller::diagnose
