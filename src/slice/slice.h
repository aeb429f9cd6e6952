#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/core/ids.h"
#include "src/localize/candidates.h"
#include "src/reconstruct/step_forest.h"

namespace teller::slice {

/// One kept node of a step. A node whose parent was not kept hangs under its nearest kept ancestor,
/// marked `elided`. Every pruned node's own time is carried by its nearest kept ancestor; since the
/// root of every track is kept, a track's sums are those of the whole step to the nanosecond.
struct SliceNode {
  NodeId node = kNoNode;  ///< in the step's forest
  int32_t parent = -1;    ///< index into CausalSlice::nodes, same track; -1: root
  uint16_t depth = 0;     ///< in the slice
  bool elided = false;
  uint8_t suspect = 0;           ///< 1 + place among the K; 0: none of them
  int64_t elided_host_ns = 0;    ///< host self time of pruned descendants
  int64_t elided_device_ns = 0;  ///< device busy time of pruned descendants

  bool operator==(const SliceNode&) const = default;
};

/// The causal context of a step: nodes in forest pre-order, edges between kept nodes by slice
/// index.
struct CausalSlice {
  std::vector<SliceNode> nodes;
  std::vector<reconstruct::StepEdge> edges;  ///< NodeIds are indices into `nodes`
  std::vector<uint32_t> logs;                ///< indices into StepForest::logs
};

/// The one label-free rule by which every step is cut (docs/protocol.md, section 3). Parts may be
/// switched off for the slice ablation.
struct SliceOptions {
  int suspects = 8;  ///< K
  int node_budget = 512;
  int neighbours = 2;  ///< temporal neighbours on each side of a suspect
  int instances =
      3;  ///< first suspects whose other instances (same operator and rank) are kept too
  int log_budget = 32;
  bool ancestors = true;
  bool subtrees = true;
  bool peers = true;  ///< matched communication, and what the peers did just before
  bool fill = true;   ///< what the budget leaves goes to the nodes with the largest residuals
  bool logs = true;
};

/// Cuts in this order until the budget is used up; what does not fit with its ancestors is passed
/// over: roots of all tracks (always kept, whatever the budget); the first K candidates; what they
/// launched or were launched by; other instances of the first suspects' operators, those of
/// largest residual first, an eighth of the budget each; the collectives around them on all ranks
/// and the nodes before those; their subtrees; their neighbours in time; the nodes of largest
/// residual.
CausalSlice CutSlice(const reconstruct::StepForest& step, const localize::StepSuspects& suspects,
                     const SliceOptions& options);

/// How many of `nodes` (ids in the forest, for example a label's hit nodes) a slice keeps: slice
/// recall is the sum of this over the sum of their numbers.
std::size_t CountKept(const CausalSlice& slice, std::span<const NodeId> nodes);

}  // namespace teller::slice
