#include "src/model/token_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace teller::model {
namespace {

constexpr float kLargest = 8;     // spreads; beyond that a value says 'far' and nothing more
constexpr float kLogUnit = 0.1f;  // what 'relative' and 'contrast' are counted in
constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

float Clipped(float value) { return std::clamp(value, -kLargest, kLargest); }

/// Values that are not NaN; their median, or NaN where there is none.
float MedianOf(std::vector<float> values) {
  std::erase_if(values, [](float value) { return std::isnan(value); });
  if (values.empty()) return kNothing;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Which occurrence of its entry on its rank every token is.
std::vector<uint32_t> Occurrences(const dataset::StepTokens& step) {
  std::map<std::pair<uint16_t, uint32_t>, uint32_t> seen;
  std::vector<uint32_t> occurrence;
  for (const auto& token : step.tokens) occurrence.push_back(seen[{token.rank, token.id}]++);
  return occurrence;
}

/// By token: its value less the mean of the same occurrence of its entry on other ranks; NaN where
/// there is none.
std::vector<float> AgainstPeers(const dataset::StepTokens& step,
                                const std::vector<uint32_t>& occurrence,
                                const std::vector<float>& values) {
  struct Sum {
    float value = 0;
    float count = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, Sum> sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    Sum& sum = sums[{step.tokens[i].id, occurrence[i]}];
    sum.value += values[i];
    sum.count += 1;
  }
  std::vector<float> contrast(values.size(), kNothing);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const Sum& sum = sums.at({step.tokens[i].id, occurrence[i]});
    if (sum.count >= 2) contrast[i] = values[i] - (sum.value - values[i]) / (sum.count - 1);
  }
  return contrast;
}

float InLogUnits(float value) { return std::isnan(value) ? 0 : Clipped(value / kLogUnit); }

}  // namespace

TokenClock::TokenClock(const dataset::TokensFile& run, const Standardization& standardization,
                       bool ranks)
    : standard_(standardization), ranks_(ranks) {
  std::array<std::vector<float>, kChannelCount> all;
  for (const auto& step : run.steps) {
    if ((step.label.reasons & dataset::kReasonCalibration) == 0) continue;
    for (const LogTimesOf& deviation : Deviations(step)) {  // the offset is still zero here
      for (int c = 0; c < kChannelCount; ++c) all[c].push_back(deviation[c]);
    }
  }
  LogTimesOf offset{};
  for (int c = 0; c < kChannelCount; ++c) {
    const float median = MedianOf(std::move(all[c]));
    offset[c] = std::isnan(median) ? 0 : median;
  }
  run_offset_ = offset;
}

std::vector<TokenClock::LogTimesOf> TokenClock::Deviations(const dataset::StepTokens& step) const {
  std::vector<LogTimesOf> deviations;
  for (const auto& token : step.tokens) {
    const auto logs = LogTimes(token);
    LogTimesOf one{};
    for (int c = 0; c < kChannelCount; ++c) {
      const bool usual = logs[c] > 0 && standard_.entry_count[token.id] >= kFewTokens;
      one[c] = usual ? logs[c] - standard_.entry[token.id][c].mean - run_offset_[c] : kNothing;
    }
    deviations.push_back(one);
  }
  return deviations;
}

std::vector<TokenTimes> TokenClock::Read(const dataset::StepTokens& step) const {
  const auto deviations = Deviations(step);
  const auto occurrence = Occurrences(step);
  std::vector<TokenTimes> times(step.tokens.size());
  for (int c = 0; c < kChannelCount; ++c) {
    std::vector<float> values;
    for (const auto& deviation : deviations) values.push_back(deviation[c]);
    const float shared = MedianOf(values);
    const std::vector<float> contrast = AgainstPeers(step, occurrence, values);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto& token = step.tokens[i];
      TokenTime& time = times[i][c];
      time.size =
          Clipped((LogTimes(token)[c] - standard_.channel[c].mean) / standard_.channel[c].scale);
      if (std::isnan(values[i])) continue;
      time.deviation = Clipped(values[i] / standard_.entry[token.id][c].scale);
      time.relative = InLogUnits(values[i] - shared);
      if (ranks_) time.contrast = InLogUnits(contrast[i]);
    }
  }
  return times;
}

}  // namespace teller::model
