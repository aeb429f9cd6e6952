#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/reconstruct/step_forest.h"

namespace teller::dataset {

/// 0: batch 1, 1: 2, 2: 3-4, 3: 5-8, ...; -1 where the batch is not known.
int BatchBucketOf(const reconstruct::StepForest& step);

/// Median and spread of a positive quantity over some steps, by phase and batch bucket, in
/// logarithms of (ns + 10 us). Where a bucket has fewer than 5 steps the phase serves, then all
/// steps, then (1, 0).
class StepScale {
 public:
  struct Row {
    double log_spread = 0;  ///< 1.4826 x median absolute deviation, at least 0.05
    int64_t median_ns = 0;
  };

  void Add(const reconstruct::StepForest& step, int64_t value_ns);
  /// Nothing may be added afterwards.
  void Fit();
  const Row& Of(const reconstruct::StepForest& step) const;
  /// log((value + floor) / (median + floor)), cut at +-5: differences below the floor count for
  /// little.
  double LogRatio(const reconstruct::StepForest& step, int64_t value_ns,
                  int64_t floor_ns = kFloorNs) const;

  static constexpr int64_t kFloorNs = 10'000;

 private:
  std::map<std::pair<int, int>, std::vector<int64_t>> values_;  // by (phase, bucket); -2: any
  std::map<std::pair<int, int>, Row> rows_;
};

}  // namespace teller::dataset
