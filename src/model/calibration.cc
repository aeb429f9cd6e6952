#include "src/model/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/error.h"

namespace teller::model {
namespace {

double Sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

struct Line {
  double slope = 1, offset = 0;
};

/// One damped Newton step of logistic regression on one feature; answers how far it went.
double NewtonStep(std::span<const float> logits, std::span<const double> targets, Line& line) {
  double g0 = 0, g1 = 0, h00 = 1e-9, h01 = 0, h11 = 1e-9;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i];
    const double p = Sigmoid(line.slope * x + line.offset);
    const double w = std::max(1e-12, p * (1 - p));
    g0 += p - targets[i];
    g1 += (p - targets[i]) * x;
    h00 += w;
    h01 += w * x;
    h11 += w * x * x;
  }
  const double determinant = h00 * h11 - h01 * h01;
  if (!(determinant > 1e-12)) return 0;
  const double slope = std::clamp((h00 * g1 - h01 * g0) / determinant, -1.0, 1.0);
  const double offset = std::clamp((h11 * g0 - h01 * g1) / determinant, -1.0, 1.0);
  line.slope -= slope;
  line.offset -= offset;
  return std::abs(slope) + std::abs(offset);
}

}  // namespace

Calibration FitCalibration(std::span<const float> logits, std::span<const uint8_t> abnormal) {
  TELLER_CHECK(logits.size() == abnormal.size());
  Calibration result;
  result.steps = static_cast<int64_t>(logits.size());
  for (const uint8_t value : abnormal) result.positives += value ? 1 : 0;
  const int64_t negatives = result.steps - result.positives;
  if (result.positives == 0 || negatives == 0) return result;
  // Platt's smoothing keeps the slope finite where the classes are separable.
  const double high =
      (static_cast<double>(result.positives) + 1) / (static_cast<double>(result.positives) + 2);
  const double low = 1 / (static_cast<double>(negatives) + 2);
  std::vector<double> targets;
  for (const uint8_t value : abnormal) targets.push_back(value ? high : low);
  Line line;
  for (int round = 0; round < 200 && NewtonStep(logits, targets, line) > 1e-9; ++round) {
  }
  if (!(line.slope > 1e-3) || !std::isfinite(line.slope) || !std::isfinite(line.offset))
    return result;
  result.fitted = true;
  result.temperature = 1 / line.slope;
  result.offset = line.offset;
  return result;
}

float CalibratedProbability(const Calibration& calibration, float logit) {
  if (!calibration.fitted) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(Sigmoid(logit / calibration.temperature + calibration.offset));
}

std::vector<float> KindProbabilities(std::span<const float> logits) {
  std::vector<double> each;
  double none = 1, sum = 0;
  for (const float logit : logits) {
    each.push_back(Sigmoid(logit));
    none *= 1 - each.back();
    sum += each.back();
  }
  each.push_back(none);
  std::vector<float> probabilities;
  for (const double value : each) probabilities.push_back(static_cast<float>(value / (sum + none)));
  return probabilities;
}

}  // namespace teller::model
