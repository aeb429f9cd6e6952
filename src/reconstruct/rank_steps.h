#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/reconstruct/call_tree.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/step_forest.h"
#include "src/reconstruct/step_name.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

/// A range of the step thread that is a step.
struct StepRange {
  int64_t begin_ns = 0, end_ns = 0;  ///< process's clock
  int32_t position = 0;              ///< in the tree of the step thread
  StringId raw_name = kNoString;
  StepName name;
  StringId request = kNoString;
};

/// A collective's node within a rank's step.
struct CollectiveNode {
  std::size_t event = 0;  ///< index among the process's events
  NodeId node = kNoNode;
};

/// One step of one rank: as in StepForest, for this rank alone; node and track numbers count from
/// 0.
struct RankStep {
  StepRange range;
  std::vector<uint32_t> tracks;  ///< dense numbers, ascending
  std::vector<StepNode> nodes;   ///< `track` is a position in `tracks`
  std::vector<StepEdge> edges;   ///< launches and threads
  std::vector<CollectiveNode> collectives;
};

/// All steps of one rank.
struct RankSteps {
  RankId rank = kNoRank;
  int process = 0;
  ClockMap clock;
  std::vector<TrackKey> tracks;  ///< by dense number; 0 is the step's own thread
  std::vector<RankStep> steps;
};

/// The step thread's ranges; empty where the process has no steps. `tree` is the step thread's
/// position among `trees`.
struct StepRanges {
  std::size_t tree = 0;
  std::vector<StepRange> ranges;
};

/// @param names  by StringId: what each name says as a step; nothing: no step
StepRanges FindStepRanges(const std::vector<CallTree>& trees, const trace::EventTable& events,
                          const std::vector<std::optional<StepName>>& names);

/// Gives every symbol its number in the run, once per (name, layer).
class SymbolCache {
 public:
  SymbolCache(const StringInterner& strings, StringInterner& symbols)
      : strings_(strings), symbols_(symbols) {}
  SymbolId Of(StringId name, trace::Layer layer);

 private:
  const StringInterner& strings_;
  StringInterner& symbols_;
  std::vector<SymbolId> known_;  // by name and layer
};

/// Cuts a process's trees into steps. `steps` has its ranges; nodes, tracks, edges and collectives
/// are filled in.
void FillRankSteps(const std::vector<CallTree>& trees, std::size_t step_tree,
                   const trace::EventTable& events, SymbolCache& symbols, SymbolId thread_root,
                   SymbolId stream_root, RankSteps& steps, std::map<std::string, int64_t>& stats);

}  // namespace teller::reconstruct
