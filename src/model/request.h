#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/model_config.h"

namespace teller::model {

/// What teller_model_train is asked (docs/schema/model_request.md).
struct TrainRequest {
  std::vector<std::filesystem::path> train;       ///< tokens.h5 of training runs
  std::vector<std::filesystem::path> validation;  ///< for calibration; may be empty
  std::filesystem::path output;                   ///< folder to make
  int64_t seed = 0;
  ModelConfig config;
  bool force = false;  ///< replace `output` and a checkpoint of another training
};

/// What teller_model_predict is asked.
struct PredictRequest {
  std::filesystem::path model;                ///< folder that a training made
  std::vector<std::filesystem::path> tokens;  ///< tokens.h5 of any runs
  std::filesystem::path output;               ///< predictions.h5
  std::string method = "teller";              ///< its name in tables
  bool scored_only = false;  ///< leave out steps that no table scores: grey ones, calibration
  bool force = false;
};

/// Both throw ConfigError: not JSON, unknown key, missing or wrong value.
TrainRequest ParseTrainRequest(std::string_view json);
PredictRequest ParsePredictRequest(std::string_view json);

}  // namespace teller::model
