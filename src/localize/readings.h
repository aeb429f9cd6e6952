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

/// Every time of a step that a baseline can be held against, in node order. Synthetic roots give
/// none.
/// - Host time spent while a collective of the same rank runs on another host thread counts as
/// blocked and is left out.
/// - Below an engine range, time between children belongs to the child (kGapBefore); below an
/// operator or a call, to the
///   operator (kHostSelf).
std::vector<Reading> ReadStep(const reconstruct::StepForest& step);

/// By node: the last starter of the same collective (itself where it is); kNoNode where the node is
/// not a matched collective.
std::vector<NodeId> LastStarters(const reconstruct::StepForest& step);

}  // namespace teller::localize
