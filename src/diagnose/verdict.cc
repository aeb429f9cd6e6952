#include "src/diagnose/verdict.h"

#include <algorithm>

namespace teller::diagnose {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHealthy:
      return "healthy";
    case Verdict::kAbnormal:
      return "abnormal";
    case Verdict::kUndecided:
      break;
  }
  return "undecided";
}

std::vector<uint8_t> AbnormalSteps(std::span<const float> p_values, double false_share) {
  std::vector<float> sorted(p_values.begin(), p_values.end());
  std::sort(sorted.begin(), sorted.end());
  double threshold = -1;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double allowed =
        false_share * static_cast<double>(i + 1) / static_cast<double>(sorted.size());
    if (sorted[i] <= allowed) threshold = sorted[i];
  }
  std::vector<uint8_t> abnormal;
  for (const float p : p_values) abnormal.push_back(p <= threshold ? 1 : 0);
  return abnormal;
}

}  // namespace teller::diagnose
