#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/dataset/labels.h"
#include "src/dataset/truth_reader.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/step_forest.h"

namespace teller::dataset {

struct LabelOptions {
  int64_t floor_ns =
      50'000;              ///< a step is positive from max(floor, fraction x calibration median) on
  double fraction = 0.02;  ///< 1, 2 and 5 % are a sensitivity row
  int64_t recovery_ns = 500'000'000;  ///< recovery lasts at most so long
  int recovery_steps = 3;             ///< and ends at so many healthy steps in a row
  double healthy_spreads =
      3;  ///< healthy: log step time at most so many robust spreads above the bucket's median
};

/// From a node's clock to the run's base.
using NodeClocks = std::map<std::string, reconstruct::ClockMap>;

/// Counters by reason: nodes whose clock is not known (their times are taken as base times),
/// placebos that acted, lost evidence, actions outside every step.
using LabelStats = std::map<std::string, int64_t>;

/// Labels every step by docs/protocol.md, section 1 (docs/labels.md says how each rule is read).
/// Order of the rules:
///  1. Recorded time of a rank is the overlap of its actions with its own part of the step.
///  Placebos record nothing.
///  2. A step that holds a stretch's begin or end is grey (edge).
///  3. At or above the threshold on some rank it is positive; the stretch with most recorded time
///  names the fault.
///  4. Above zero but below the threshold it is grey (below).
///  5. Within the measured recovery after a stretch that acted it is grey (recovery).
///  6. Inside a stretch of a kind that is measured by the stretch it is grey, where that acted.
///  7. Else it is negative; inside a stretch with the reason placebo, no action, or ineffective.
/// Steps that touch the calibration window carry that reason beside; they are never scored. A run
/// without any measures its medians on the steps outside stretches, and counts that.
std::vector<StepLabel> LabelSteps(const reconstruct::RunForest& run, const Truth& truth,
                                  const NodeClocks& clocks, LabelStats& stats,
                                  const LabelOptions& options = {});

}  // namespace teller::dataset
