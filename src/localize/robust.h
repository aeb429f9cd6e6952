#pragma once

#include <cstdint>
#include <span>

namespace teller::localize {

/// Median and spread of a sample; the spread is 1.4826 times the median absolute deviation, the
/// standard deviation of a normal distribution.
struct RobustStat {
  float median = 0;
  float spread = 0;
  uint32_t count = 0;
};

/// Reorders `values`. An empty sample gives zeros. O(n).
RobustStat FitRobust(std::span<float> values);
/// Lower median; reorders `values`, which must not be empty.
float Median(std::span<float> values);
/// The value at `share` in [0, 1] of the sorted sample; reorders `values`, which must not be empty.
float Quantile(std::span<float> values, double share);

}  // namespace teller::localize
