#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/model/model_config.h"
#include "src/model/standardization.h"

namespace teller::model {

/// What one channel of one token says, in plain numbers near one; 0 where there is nothing to
/// compare with.
struct TokenTime {
  float size = 0;       ///< log time against all tokens, in their spreads
  float deviation = 0;  ///< against the entry's usual time in this run, in the entry's spreads
  float relative =
      0;  ///< the deviation's log against the median of the step's tokens: what the step shares
          ///< (its batch, its phase) is taken off; a tenth of a natural log is 1
  float contrast = 0;  ///< against the same occurrence of the entry on the other ranks; same unit
};
inline constexpr int kTokenTimeColumns = 4;

using TokenTimes = std::array<TokenTime, kChannelCount>;

/// Looks at the times of one run's tokens, less one offset a channel that its calibration window
/// gives. (An offset an entry was tried and made step detection worse: the window's mix of phases
/// is not that of the rest of a run.)
class TokenClock {
 public:
  /// Without `ranks` no rank is told from another: no contrast.
  TokenClock(const dataset::TokensFile& run, const Standardization& standardization, bool ranks);

  /// By token of the step.
  std::vector<TokenTimes> Read(const dataset::StepTokens& step) const;

 private:
  using LogTimesOf = std::array<float, kChannelCount>;  // NaN: nothing to compare with

  std::vector<LogTimesOf> Deviations(const dataset::StepTokens& step) const;

  const Standardization& standard_;
  bool ranks_;
  LogTimesOf run_offset_{};
};

}  // namespace teller::model
