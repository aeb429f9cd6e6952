#include "src/dataset/step_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace teller::dataset {
namespace {

constexpr int kAny = -2;
constexpr std::size_t kMinSteps = 5;
constexpr double kMinSpread = 0.05;
constexpr double kMaxLogRatio = 5;

double LogOf(int64_t value_ns, int64_t floor_ns = StepScale::kFloorNs) {
  return std::log(static_cast<double>(std::max<int64_t>(value_ns, 0) + floor_ns));
}

template <typename T>
T MedianOf(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

StepScale::Row RowOf(const std::vector<int64_t>& values) {
  const int64_t median_ns = MedianOf(values);
  std::vector<double> distances;
  for (const int64_t value : values) distances.push_back(std::abs(LogOf(value) - LogOf(median_ns)));
  return {std::max(1.4826 * MedianOf(std::move(distances)), kMinSpread), median_ns};
}

}  // namespace

int BatchBucketOf(const reconstruct::StepForest& step) {
  return step.batch_size < 1 ? -1 : std::bit_width(static_cast<uint32_t>(step.batch_size) - 1);
}

void StepScale::Add(const reconstruct::StepForest& step, int64_t value_ns) {
  const int phase = static_cast<int>(step.phase);
  for (const auto& key :
       {std::pair(phase, BatchBucketOf(step)), std::pair(phase, kAny), std::pair(kAny, kAny)}) {
    values_[key].push_back(value_ns);
  }
}

void StepScale::Fit() {
  for (const auto& [key, values] : values_) {
    if (values.size() >= kMinSteps || key.first == kAny) rows_[key] = RowOf(values);
  }
  values_.clear();
}

const StepScale::Row& StepScale::Of(const reconstruct::StepForest& step) const {
  static constexpr Row kNothing{kMinSpread, 1};
  const int phase = static_cast<int>(step.phase);
  for (const auto& key :
       {std::pair(phase, BatchBucketOf(step)), std::pair(phase, kAny), std::pair(kAny, kAny)}) {
    if (const auto found = rows_.find(key); found != rows_.end()) return found->second;
  }
  return kNothing;
}

double StepScale::LogRatio(const reconstruct::StepForest& step, int64_t value_ns,
                           int64_t floor_ns) const {
  const double ratio = LogOf(value_ns, floor_ns) - LogOf(Of(step).median_ns, floor_ns);
  return std::clamp(ratio, -kMaxLogRatio, kMaxLogRatio);
}

}  // namespace teller::dataset
