#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/model/features.h"
#include "src/model/log_pieces.h"
#include "src/model/model_config.h"
#include "src/model/standardization.h"

namespace teller::model {

inline constexpr const char* kManifestName = "model.json";
inline constexpr const char* kWeightsName = "weights.pt";
inline constexpr const char* kLogPiecesName = "log_pieces.model";

/// probability = sigmoid(logit / temperature + offset), fitted on validation steps at their natural
/// prior.
struct Calibration {
  bool fitted =
      false;  ///< false: no usable validation steps; predictions then carry no probability
  double temperature = 1;
  double offset = 0;
  int64_t steps = 0;
  int64_t positives = 0;
};

/// What a training did and what it left out.
struct TrainingRecord {
  int64_t seed = 0;
  std::vector<double> losses;             ///< total, by update
  std::map<std::string, int64_t> counts;  ///< steps and tokens by what became of them
  std::vector<std::string> notes;         ///< for people: what could not be done
};

/// model.json (docs/schema/model.md): everything of a model but its weights.
struct Manifest {
  ModelConfig config;
  InputShape shape;
  std::vector<std::string> kinds;  ///< without 'unknown'
  Standardization standardization;
  Calibration calibration;
  TrainingRecord training;
  std::string weights_hash;     ///< of weights.pt
  std::string log_pieces_hash;  ///< of log_pieces.model; empty: there is none
};

/// Writes DIR/model.json; the hashes are taken from the files that already stand in `folder`.
void WriteManifest(const std::filesystem::path& folder, Manifest manifest);

/// Reads and checks DIR/model.json and the hashes of the files beside it. Throws DataError of one
/// line: absent, not ours, another major version, inconsistent sizes, changed files.
Manifest ReadManifest(const std::filesystem::path& folder);

/// The pieces of the model's log lines; none where it has none.
LogPieces ReadLogPieces(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace teller::model
