#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/ids.h"
#include "src/core/interner.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

enum class Phase : uint8_t { kUnknown = 0, kPrefill = 1, kDecode = 2, kMixed = 3 };
std::string_view PhaseName(Phase phase);

/// One thread of a process or one stream of its device, within a step.
struct StepTrack {
  RankId rank = kNoRank;
  uint32_t track = 0;  ///< dense per rank, stable over a run: 0 is the step's own thread, then by
                       ///< first appearance
  bool device = false;
};

/// One node of a step's call-chain forest. Within a track nodes nest by containment; `parent` is
/// always in the same track. Host and device are joined by edges.
struct StepNode {
  SymbolId symbol{};
  uint16_t track = 0;  ///< index into StepForest::tracks
  trace::Layer layer{};
  trace::Kind kind{};
  NodeId parent = kNoNode;
  uint16_t depth = 0;
  int64_t begin_ns =
      0;  ///< from its rank's begin (rank_begin_ns); may be negative for early starters
  int64_t duration_ns = 0;
  int64_t host_self_ns = 0;    ///< host tracks: duration minus children; 0 on device tracks
  int64_t device_busy_ns = 0;  ///< device tracks: duration minus children; 0 on host tracks
  int64_t gap_before_ns = 0;  ///< from the previous sibling's end (or the parent's begin) to begin;
                              ///< root: from the previous step's end on that track, -1 unknown
  int64_t bytes = -1;
  int32_t sequence = -1;       ///< of a collective
  int64_t entry_delay_ns = 0;  ///< a collective that the host and the device recorded: from its
                               ///< begin to the host record's begin, when the rank itself joined
};

enum class EdgeType : uint8_t {
  kLaunch = 0,      ///< host call -> device item it enqueued
  kCollective = 1,  ///< the same collective on two ranks; from the last starter to each other rank
  kMessage = 2,     ///< send -> receive
  kThread = 3       ///< cause on one thread -> work on another
};

struct StepEdge {
  NodeId from = kNoNode;
  NodeId to = kNoNode;
  EdgeType type{};
};

struct StepLogLine {
  RankId rank = kNoRank;
  int64_t offset_ns = 0;  ///< from the step's begin
  std::string text;       ///< times, durations, rates and ids masked (docs/protocol.md, section 3)
};

/// One engine iteration over all its ranks. Nodes are in pre-order, grouped by track in the order
/// of `tracks`; every track has exactly one root: on the step's own thread the step's range, on
/// other threads and streams a synthetic node
/// '(thread)' or '(stream)' that spans its first begin to its last end. On a host track the sum of
/// host_self_ns over the nodes equals the root's duration to the nanosecond (the root's own share
/// is time no child covers); on a device track the same holds for device_busy_ns over all nodes but
/// the root, whose share is 0, against the union of busy time.
struct StepForest {
  int64_t engine_step = 0;  ///< counts from 0 within the run
  int64_t begin_ns = 0;     ///< earliest begin over ranks, aligned trace clock
  int64_t end_ns = 0;       ///< latest end over ranks
  Phase phase{};
  int32_t batch_size = 0;                           ///< requests in the step
  int32_t context_tokens = 0;                       ///< prompt tokens computed; -1 unknown
  std::vector<int64_t> rank_begin_ns, rank_end_ns;  ///< by position in `ranks`
  std::vector<RankId> ranks;
  std::vector<std::string> requests;  ///< ids, for people; never a model input
  std::vector<StepTrack> tracks;
  std::vector<StepNode> nodes;
  std::vector<StepEdge> edges;
  std::vector<StepLogLine> logs;

  /// Half-open range of `nodes` that belong to one track.
  std::pair<std::size_t, std::size_t> TrackNodes(std::size_t track) const;
};

/// All steps of one run, with the table their symbols refer to.
struct RunForest {
  std::string run_id;
  std::string workload;
  StringInterner symbols;
  std::vector<StepForest> steps;
};

}  // namespace teller::reconstruct
