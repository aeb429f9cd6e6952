#pragma once

#include "src/model/request.h"
#include "src/model/train.h"

namespace teller::model {

/// Reads the requested files and trains on them (TrainOnRuns).
void Train(const TrainRequest& request, const ProgressCall& progress);

/// Reads the requested files one by one and writes predictions.h5; nothing is written where one of
/// them does not fit.
void Predict(const PredictRequest& request, const ProgressCall& progress);

}  // namespace teller::model
