#include "src/model/standardization.h"

#include <algorithm>
#include <cmath>

namespace teller::model {
namespace {

constexpr float kMadToSigma = 1.4826f;
constexpr float kLeastScale = 0.02f;  // 2 % of a time: below that a deviation is noise of the clock

float Median(std::vector<float>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Moments RobustMoments(std::vector<float>& values) {
  if (values.empty()) return {};
  const float median = Median(values);
  for (float& value : values) value = std::abs(value - median);
  return {median, std::max(kLeastScale, kMadToSigma * Median(values))};
}

Moments PlainMoments(std::span<const float> values) {
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return {static_cast<float>(mean), deviation > 1e-4 ? static_cast<float>(deviation) : 1.0f};
}

/// Log times of healthy tokens, by vocabulary entry.
using EntryTimes = std::vector<std::array<std::vector<float>, kChannelCount>>;

EntryTimes CollectEntryTimes(std::span<const dataset::TokensFile* const> training) {
  EntryTimes times(training.empty() ? 0 : training.front()->vocabulary_size);
  for (const dataset::TokensFile* run : training) {
    for (const dataset::StepTokens& step : run->steps) {
      if (!IsHealthyStep(step)) continue;
      for (const dataset::StepToken& token : step.tokens) {
        const auto logs = LogTimes(token);
        for (int c = 0; c < kChannelCount; ++c) times[token.id][c].push_back(logs[c]);
      }
    }
  }
  return times;
}

void FitTokens(std::span<const dataset::TokensFile* const> training, Standardization& fitted) {
  EntryTimes times = CollectEntryTimes(training);
  for (int c = 0; c < kChannelCount; ++c) {
    std::vector<float> all;
    for (const auto& entry : times) all.insert(all.end(), entry[c].begin(), entry[c].end());
    fitted.channel[c] = PlainMoments(all);
  }
  fitted.entry.resize(times.size());
  fitted.entry_count.resize(times.size());
  for (std::size_t id = 0; id < times.size(); ++id) {
    fitted.entry_count[id] = static_cast<uint32_t>(times[id][0].size());
    if (fitted.entry_count[id] < kFewTokens) continue;
    for (int c = 0; c < kChannelCount; ++c) fitted.entry[id][c] = RobustMoments(times[id][c]);
  }
}

bool IsCalibrationStep(const dataset::StepTokens& step) {
  return (step.label.reasons & dataset::kReasonCalibration) != 0;
}

void FitNumbers(std::span<const dataset::TokensFile* const> training, Standardization& fitted) {
  const std::size_t columns = training.empty() ? 0 : training.front()->number_names.size();
  std::vector<std::vector<float>> raw(columns), relative(columns);
  for (const dataset::TokensFile* run : training) {
    const std::vector<float> medians = FitNumbersOffset(*run).median;
    for (const auto& step : run->steps) {
      if (!IsTrainingStep(step)) continue;
      for (std::size_t column = 0; column < columns; ++column) {
        const float value = SignedLog(step.numbers[column]);
        raw[column].push_back(value);
        relative[column].push_back(value - medians[column]);
      }
    }
  }
  for (std::size_t column = 0; column < columns; ++column) {
    fitted.numbers.push_back(PlainMoments(raw[column]));
    fitted.numbers_relative.push_back(PlainMoments(relative[column]));
  }
}

void FitLocalizer(std::span<const dataset::TokensFile* const> training, Standardization& fitted) {
  const std::size_t width = training.empty() ? 0 : training.front()->localizer_names.size();
  for (std::size_t column = 0; column < width; ++column) {
    std::vector<float> values;
    for (const dataset::TokensFile* run : training) {
      for (const auto& step : run->steps) {
        if (!IsTrainingStep(step)) continue;
        values.push_back(SignedLog(step.localizer[column]));
      }
    }
    fitted.localizer.push_back(PlainMoments(values));
  }
}

}  // namespace

float SignedLog(float value) {
  if (!std::isfinite(value)) return 0;
  return std::copysign(std::log1p(std::abs(value)), value);
}

std::array<float, kChannelCount> LogTimes(const dataset::StepToken& token) {
  const auto log_time = [](int64_t ns) {
    return static_cast<float>(std::log1p(static_cast<double>(std::max<int64_t>(0, ns))));
  };
  return {log_time(token.host_ns), log_time(token.device_ns), log_time(token.root_ns)};
}

bool IsTrainingStep(const dataset::StepTokens& step) {
  return step.label.status != dataset::LabelStatus::kGrey && !IsCalibrationStep(step);
}

bool IsHealthyStep(const dataset::StepTokens& step) {
  return step.label.status == dataset::LabelStatus::kNegative;
}

Standardization FitStandardization(std::span<const dataset::TokensFile* const> training) {
  Standardization fitted;
  FitTokens(training, fitted);
  FitNumbers(training, fitted);
  FitLocalizer(training, fitted);
  return fitted;
}

NumbersOffset FitNumbersOffset(const dataset::TokensFile& run) {
  NumbersOffset offset;
  for (const auto& step : run.steps) offset.steps += IsCalibrationStep(step) ? 1 : 0;
  for (std::size_t column = 0; column < run.number_names.size(); ++column) {
    std::vector<float> values;
    for (const auto& step : run.steps) {
      if (IsCalibrationStep(step)) values.push_back(SignedLog(step.numbers[column]));
    }
    offset.median.push_back(Median(values));
  }
  return offset;
}

}  // namespace teller::model
