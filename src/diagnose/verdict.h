#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace teller::diagnose {

enum class Verdict : uint8_t { kHealthy = 0, kAbnormal = 1, kUndecided = 2 };
/// 'healthy', 'abnormal', 'undecided'.
std::string_view VerdictName(Verdict verdict);

/// Which steps are abnormal when at most `false_share` of those named may be healthy ones
/// (Benjamini and Hochberg 1995); p-values are per step. Empty input gives an empty answer.
std::vector<uint8_t> AbnormalSteps(std::span<const float> p_values, double false_share);

}  // namespace teller::diagnose
