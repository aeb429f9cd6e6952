#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/core/ids.h"

namespace teller::dataset {

/// One answer about where a fault sits, best first in StepPrediction::operators.
struct OperatorGuess {
  RankId rank = kNoRank;
  std::string symbol;
  NodeId node = kNoNode;
  float probability = 0;
};

/// What a method (ours or a baseline) says of one step. A head that a method does not fill is left
/// empty or NaN: blank in tables, not zero.
struct StepPrediction {
  std::string run_id;
  int64_t engine_step = 0;
  float score = 0;                       ///< any monotone abnormality score
  float probability = 0;                 ///< calibrated; NaN: the method gives none
  std::vector<float> kind_probability;   ///< by PredictionsFile::kinds; empty: blank
  std::vector<OperatorGuess> operators;  ///< at most 5
  std::vector<float> rank_probability;   ///< by position in the run's ranks; empty: blank
  std::string explanation;
};

/// predictions.h5 (docs/schema/predictions.md): all steps of validation and test runs, one method,
/// one seed.
struct PredictionsFile {
  std::string method;
  int64_t seed = 0;
  std::vector<std::string> kinds;  ///< kind names; the last is 'unknown'
  std::vector<StepPrediction> steps;
};

void WritePredictions(const std::filesystem::path& path, const PredictionsFile& predictions,
                      bool force = false);
PredictionsFile ReadPredictions(const std::filesystem::path& path);

}  // namespace teller::dataset
