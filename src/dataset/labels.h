#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/ids.h"

namespace teller::dataset {

enum class LabelStatus : uint8_t { kNegative = 0, kPositive = 1, kGrey = 2 };
enum class View : uint8_t { kNone = 0, kHorizontal = 1, kVertical = 2 };

/// Why a step is what it is; bits.
inline constexpr uint32_t kReasonCalibration =
    1u << 0;  ///< in the run's calibration window: never scored
inline constexpr uint32_t kReasonPlacebo = 1u << 1;  ///< inside a placebo stretch
inline constexpr uint32_t kReasonEdge = 1u << 2;     ///< straddles the edge of a stretch
inline constexpr uint32_t kReasonRecovery =
    1u << 3;  ///< in the measured recovery time after a stretch
inline constexpr uint32_t kReasonBelow = 1u
                                         << 4;  ///< recorded time above zero, below the threshold
inline constexpr uint32_t kReasonNoAction = 1u
                                            << 5;  ///< inside a stretch, without a recorded action
inline constexpr uint32_t kReasonIneffective = 1u << 6;  ///< of a stretch that did not act
inline constexpr uint32_t kReasonByStretch =
    1u << 7;  ///< inside a fault that is measured for its whole stretch only

/// What was measured to happen in one step (docs/protocol.md, section 1; docs/labels.md by kind).
struct StepLabel {
  LabelStatus status = LabelStatus::kNegative;
  uint32_t reasons = 0;
  int32_t stretch = -1;  ///< of the run; -1: healthy time
  int32_t plan_id = -1;
  std::string kind;  ///< fault kind, empty: none
  std::string family;
  View view = View::kNone;
  int32_t level = 0;  ///< 1 barely visible .. 5 severe; 0 none
  RankId culprit_rank = kNoRank;
  std::string culprit_layer;
  std::string culprit_symbol;        ///< normalised symbol, empty where the kind has none
  std::vector<int64_t> recorded_ns;  ///< by position in StepForest::ranks
  std::vector<NodeId> hit_nodes;  ///< nodes of the forest that a recorded action lies in or before
};

/// Whether tables score the step: grey steps and the calibration window never are.
inline bool IsScored(const StepLabel& label) {
  return label.status != LabelStatus::kGrey && (label.reasons & kReasonCalibration) == 0;
}

}  // namespace teller::dataset
