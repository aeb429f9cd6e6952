#pragma once

#include <cstdint>
#include <vector>

#include "src/core/ids.h"
#include "src/localize/candidates.h"
#include "src/reconstruct/step_forest.h"

namespace teller::localize {

/// One measured time of one node.
struct Reading {
  NodeId node = kNoNode;
  Measure measure{};
  int32_t occurrence = 0;  ///< which of the nodes of its symbol on its track, in pre-order
  int64_t observed_ns = 0;
};

/// Every time of a step that a baseline can be held against.
struct StepReadings {
  std::vector<Reading> readings;     ///< in node order; synthetic roots give none
  std::vector<NodeId> last_starter;  ///< by node: the last starter of the same collective (itself
                                     ///< where it is); kNoNode where it is not a matched collective
};

/// - Host time spent while a collective of the same rank runs on another host thread counts as
///   blocked and is left out.
/// - Below an engine range, time between children belongs to the child (kGapBefore); below an
///   operator or a call, to the operator (kHostSelf).
/// O(nodes), and a search among the collectives where there are several host threads.
StepReadings ReadStep(const reconstruct::StepForest& step);

}  // namespace teller::localize
