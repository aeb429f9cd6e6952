#pragma once

#include <span>
#include <vector>

#include "src/model/manifest.h"

namespace teller::model {

/// Fits temperature and offset by maximum likelihood (Platt 1999, with his smoothed targets). Not
/// fitted where one class is missing or the logits point the wrong way.
Calibration FitCalibration(std::span<const float> logits, std::span<const uint8_t> abnormal);

/// NaN where the calibration was not fitted.
float CalibratedProbability(const Calibration& calibration, float logit);

/// Probabilities of the kinds and, last, of 'unknown' from one-against-the-rest logits: each kind's
/// sigmoid, 'unknown' the chance that none of them holds, normalised (after Shu, Xu and Liu 2017).
std::vector<float> KindProbabilities(std::span<const float> logits);

}  // namespace teller::model
