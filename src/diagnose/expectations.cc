#include "src/diagnose/expectations.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/localize/baseline.h"

namespace teller::diagnose {
namespace {

using localize::Measure;
using localize::Reading;
using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr uint32_t kFewestAtPlace = 3, kFewestAnywhere = 12;
constexpr uint32_t kFewForSpread = 8;
constexpr float kLeastSpread = 0.1f, kLeastSpreadOfFew = 0.25f;  // of log-times: 10 % and 25 %
constexpr uint64_t kPlaces = uint64_t{1} << 16, kTracks = uint64_t{1} << 6,
                   kShapes = uint64_t{1} << 8;

int Magnitude(int64_t value) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(0, value)));
}

uint64_t OperatorKey(const StepNode& node, const Reading& reading, uint64_t shape) {
  const uint64_t kind = static_cast<uint64_t>(node.layer) * localize::kMeasureCount +
                        static_cast<uint64_t>(reading.measure);
  const uint64_t symbol = static_cast<uint64_t>(Index(node.symbol)) << 6 | kind;
  return (symbol * kShapes + shape) * kPlaces * kTracks;
}

/// Transfers of one size are of one kind wherever they stand.
uint64_t PlaceOf(const StepForest& step, const Reading& reading) {
  const StepNode& node = step.nodes[Index(reading.node)];
  if (reading.measure == Measure::kTransfer) return static_cast<uint64_t>(Magnitude(node.bytes));
  const uint64_t track = std::min<uint64_t>(step.tracks[node.track].track, kTracks - 1);
  return track * kPlaces +
         std::min<uint64_t>(static_cast<uint64_t>(reading.occurrence), kPlaces - 1);
}

float SpreadOf(const localize::RobustStat& stat) {
  return std::max(stat.spread, stat.count < kFewForSpread ? kLeastSpreadOfFew : kLeastSpread);
}

int64_t TimeOf(float log_time) {  // inverse of localize::LogTime
  return std::max<int64_t>(0, std::llround(std::exp(static_cast<double>(log_time)) - 1000));
}

}  // namespace

Expectations::Shape Expectations::ShapeOf(const StepForest& step) {
  return {step.phase, localize::BatchBucket(step.batch_size), Magnitude(step.context_tokens)};
}

uint64_t Expectations::ShapeNumber(const StepForest& step) const {
  const auto found = shapes_.find(ShapeOf(step));
  return found == shapes_.end() ? kShapes - 1 : found->second;
}

void Expectations::Add(const StepForest& step, std::span<const Reading> readings) {
  shapes_.try_emplace(ShapeOf(step), std::min<uint64_t>(shapes_.size(), kShapes - 1));
  const uint64_t shape = ShapeNumber(step);
  for (const Reading& reading : readings) {
    const uint64_t key = OperatorKey(step.nodes[Index(reading.node)], reading, shape);
    const float time = localize::LogTime(reading.observed_ns);
    by_place_[key + PlaceOf(step, reading)].log_times.push_back(time);
    by_operator_[key].log_times.push_back(time);
  }
}

void Expectations::Seal() {
  for (auto* table : {&by_place_, &by_operator_}) {
    for (auto& [key, samples] : *table) {
      samples.least = *std::min_element(samples.log_times.begin(), samples.log_times.end());
      samples.stat = localize::FitRobust(samples.log_times);
      samples.log_times = {};
    }
  }
}

std::optional<Expectation> Expectations::Of(const StepForest& step, const Reading& reading) const {
  const uint64_t key = OperatorKey(step.nodes[Index(reading.node)], reading, ShapeNumber(step));
  const auto place = by_place_.find(key + PlaceOf(step, reading));
  const uint32_t at_place = place == by_place_.end() ? 0 : place->second.stat.count;
  const auto anywhere = by_operator_.find(key);
  const bool same_place = at_place >= kFewestAtPlace;
  if (!same_place &&
      (anywhere == by_operator_.end() || anywhere->second.stat.count < kFewestAnywhere))
    return std::nullopt;
  const localize::RobustStat& stat = same_place ? place->second.stat : anywhere->second.stat;
  Expectation expected{TimeOf(stat.median), SpreadOf(stat), stat.count, same_place, {}};
  if (at_place > 1) expected.least_at_place_ns = TimeOf(place->second.least);
  return expected;
}

}  // namespace teller::diagnose
