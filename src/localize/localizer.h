#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/localize/baseline.h"
#include "src/localize/candidates.h"
#include "src/reconstruct/step_forest.h"

namespace teller::localize {

/// One run's departure from the baseline in its calibration window, by rank position, operator and
/// measure. Without one (default) the run counts as typical.
struct RunScale {
  struct Row {
    int32_t rank = 0;  ///< position in the run's ranks
    int32_t op = 0;
    Measure measure{};
    float shift = 0;   ///< of log-times of nodes
    float spread = 1;  ///< noise of nodes relative to the baseline's
    /// Of the operator's log-ratios once nodes are shifted; members as in OperatorRow.
    struct Departure {
      float shift = 0, spread = 1;
    };
    Departure ratio, typical, lower, contrast;
  };
  std::vector<Row> rows;  ///< by (rank, op, measure)
};

struct LocalizeOptions {
  int candidates = 32;              ///< at most so many; the slice takes the first K
  int64_t clock_error_ns = 20'000;  ///< ranks' starts closer than this are not told apart
};

/// Holds one run's steps against a baseline. One thread at a time: look-ups are remembered.
class Localizer {
 public:
  /// `baseline` must outlive the localiser; `symbols` is the run's table.
  Localizer(const Baseline& baseline, const StringInterner& symbols, RunScale scale = {},
            const LocalizeOptions& options = {});
  ~Localizer();
  Localizer(Localizer&&) noexcept;
  Localizer& operator=(Localizer&&) noexcept;

  /// O(nodes). A step without a forest gives no candidates and score 0.
  StepSuspects Localize(const reconstruct::StepForest& step);

  /// The scale of this run, from steps that are healthy by protocol: label-free. Steps without a
  /// forest are skipped; none at all gives the default.
  RunScale MeasureScale(std::span<const reconstruct::StepForest* const> calibration);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace teller::localize
