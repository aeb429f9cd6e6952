#include "src/localize/robust.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace teller::localize {

float Quantile(std::span<float> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

float Median(std::span<float> values) { return Quantile(values, 0.5); }

RobustStat FitRobust(std::span<float> values) {
  if (values.empty()) return {};
  const float median = Median(values);
  std::vector<float> deviation;
  deviation.reserve(values.size());
  for (const float value : values) deviation.push_back(std::abs(value - median));
  return {median, 1.4826f * Median(deviation), static_cast<uint32_t>(values.size())};
}

}  // namespace teller::localize
