#pragma once

#include <cstdint>
#include <vector>

#include "src/core/ids.h"
#include "src/localize/candidates.h"
#include "src/reconstruct/step_forest.h"

namespace teller::slice {

/// One kept node of a step. A node whose parent was not kept hangs under its nearest kept ancestor,
/// marked `elided`; that ancestor carries the pruned time in `elided_ns`.
struct SliceNode {
  NodeId node = kNoNode;  ///< in the step's forest
  int32_t parent = -1;    ///< index into CausalSlice::nodes, same track; -1: root
  uint16_t depth = 0;     ///< in the slice
  bool elided = false;
  bool suspect = false;   ///< one of the K
  int64_t elided_ns = 0;  ///< additive channel time of pruned descendants
};

/// The causal context of a step: nodes in forest pre-order, edges between kept nodes by slice
/// index.
struct CausalSlice {
  std::vector<SliceNode> nodes;
  std::vector<reconstruct::StepEdge> edges;  ///< NodeIds are indices into `nodes`
  std::vector<uint32_t> logs;                ///< indices into StepForest::logs
};

/// The one label-free rule by which every step is cut (docs/protocol.md, section 3).
struct SliceOptions {
  int suspects = 8;  ///< K
  int node_budget = 512;
  int neighbours = 2;  ///< temporal neighbours on each side of a suspect
  bool ancestors = true, subtrees = true, peers = true,
       logs = true;  ///< parts, for the slice ablation
};

CausalSlice CutSlice(const reconstruct::StepForest& step, const localize::StepSuspects& suspects,
                     const SliceOptions& options);

}  // namespace teller::slice
