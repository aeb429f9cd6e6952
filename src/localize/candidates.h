#pragma once

#include <cstdint>
#include <vector>

#include "src/core/ids.h"

namespace teller::localize {

/// One suspicious node of one step. `z` is the standardised residual against the healthy baseline,
/// scaled per run by its calibration window; what it measures stands in `measure`.
enum class Measure : uint8_t {
  kDuration = 0,
  kGapBefore = 1,
  kHostSelf = 2,
  kLaunchDelay = 3,
  kWait = 4,
  kTransfer = 5
};

struct Candidate {
  NodeId node = kNoNode;
  RankId rank = kNoRank;
  RankId peer = kNoRank;  ///< set where a link is blamed
  Measure measure{};
  int64_t observed_ns = 0;
  int64_t expected_ns = 0;
  float z = 0;
  float p_value =
      1;  ///< of the step's maximum over operators, calibrated on held-out healthy steps
};

/// What the localiser says of one step: candidates best first, and for every node its residual (0
/// where no baseline).
struct StepSuspects {
  float score = 0;  ///< the largest z after blame was passed along the critical path
  std::vector<Candidate> candidates;
  std::vector<float> node_residual;  ///< by NodeId, length of StepForest::nodes
};

}  // namespace teller::localize
