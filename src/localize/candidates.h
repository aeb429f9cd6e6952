#pragma once

#include <cstdint>
#include <vector>

#include "src/core/ids.h"

namespace teller::localize {

/// What a residual measures. Time that a node spends waiting for something else is kept out of its
/// duration, so that a culprit shows and its victims do not.
enum class Measure : uint8_t {
  kDuration = 0,   ///< leaves and device items: how long
  kGapBefore = 1,  ///< time on the thread between the previous sibling's end and the node, below an
                   ///< engine range; of the step's own root: since the previous step
  kHostSelf = 2,   ///< host nodes with children: their own time; synchronisation calls: the time
                   ///< after the device was done
  kLaunchDelay = 3,  ///< device items: from the later of the launch's end and the stream's previous
                     ///< end to the begin
  kWait = 4,  ///< collectives: from their own rank's joining to the last starter's; points at that
              ///< rank, never blamed itself
  kTransfer = 5,  ///< collectives: from the last starter's joining to their end
  kStep = 6,  ///< the step's root on its rank: how long the whole step took; counts for the step's
              ///< score, never blamed
  kEntryDelay = 7  ///< collectives: from their begin on the device to when their rank joined
};
inline constexpr int kMeasureCount = 8;

/// One suspicious node of one step: the worst instance of an operator on a rank. `z` is a
/// standardised residual against the healthy baseline, scaled per run by its calibration window.
struct Candidate {
  NodeId node = kNoNode;
  RankId rank = kNoRank;
  RankId peer = kNoRank;  ///< set where a link is blamed
  Measure measure{};
  int64_t observed_ns = 0;
  int64_t expected_ns = 0;
  float z = 0;  ///< the largest of node, operator and contrast residual, each scaled so that
                ///< healthy steps' maxima have the same 99th percentile (4)
  float p_value =
      1;  ///< of the step's maximum over operators, calibrated on held-out healthy steps
};

/// What the localiser says of one step: candidates best first, and for every node its residual (0
/// where no baseline).
struct StepSuspects {
  float score =
      0;  ///< the largest z after blame was passed along the critical path, plus the whole
          ///< step's own: a step may be slow everywhere, or in one place that hardly shows
  float p_value = 1;       ///< of `score`
  float wait_z = 0;        ///< the largest residual of waiting in collectives, by operator and rank
  bool undecided = false;  ///< who started last is closer than the clock's error bound; waits were
                           ///< then not followed
  std::vector<Candidate> candidates;  ///< distinct nodes, at most LocalizeOptions::candidates
  std::vector<float> node_residual;   ///< by NodeId, length of StepForest::nodes
};

}  // namespace teller::localize
