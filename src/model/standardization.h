#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/model/model_config.h"

namespace teller::model {

/// Centre and spread of one feature; the spread is never zero.
struct Moments {
  float mean = 0;
  float scale = 1;
};

/// Statistics that turn raw features into numbers near one. They come from the training runs alone
/// and travel with the model (model.json); nothing of a test run enters but its calibration window,
/// label-free, as a per-run offset.
struct Standardization {
  std::array<Moments, kChannelCount> channel;  ///< of log1p(ns), over all healthy training tokens
  /// By vocabulary entry: median and robust spread of log1p(ns) over its healthy training tokens;
  /// entries seen fewer than kFewTokens times have no median of their own and their deviation is 0.
  std::vector<std::array<Moments, kChannelCount>> entry;
  std::vector<uint32_t> entry_count;
  std::vector<Moments> numbers;  ///< of SignedLog(number)
  std::vector<Moments>
      numbers_relative;            ///< of SignedLog(number) minus the run's calibration median
  std::vector<Moments> localizer;  ///< of SignedLog(feature)
};

inline constexpr uint32_t kFewTokens = 8;

/// sign(x) * log(1 + |x|); non-finite input gives 0.
float SignedLog(float value);

/// log(1 + ns) by channel; negative times count as 0.
std::array<float, kChannelCount> LogTimes(const dataset::StepToken& token);

/// True where a step may teach: neither grey nor in a calibration window.
bool IsTrainingStep(const dataset::StepTokens& step);

/// Healthy by label and not in doubt: what statistics are fitted on.
bool IsHealthyStep(const dataset::StepTokens& step);

/// What a run's calibration window says of its step numbers.
struct NumbersOffset {
  std::vector<float> median;  ///< of SignedLog(number), by column
  uint32_t steps = 0;         ///< in the window; 0: there is none, and the medians are 0
};

/// All runs have the same vocabulary and columns (CheckRun).
Standardization FitStandardization(std::span<const dataset::TokensFile* const> training);

NumbersOffset FitNumbersOffset(const dataset::TokensFile& run);

}  // namespace teller::model
