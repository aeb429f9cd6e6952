#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/model/log_pieces.h"
#include "src/model/model_config.h"
#include "src/model/standardization.h"

namespace teller::model {

/// Sizes of what a token is looked up in; larger values share the last row.
inline constexpr int64_t kLayerRows = 8;
inline constexpr int64_t kRankRows = 64;
inline constexpr int64_t kDepthRows = 32;
inline constexpr int64_t kPositionRows = 1024;
inline constexpr int64_t kSymbolRows =
    1024;  ///< hashed symbols of nodes: an unseen one still has a row
inline constexpr int64_t kNodeValues = 3;  ///< residual, log duration, place inside the token

/// What a model was built for and inputs must fit: kept in model.json.
struct InputShape {
  std::string vocabulary_hash;
  int64_t vocabulary_size = 0;
  int64_t log_vocabulary = 0;  ///< rows of log pieces; 0: none seen in training
  std::vector<std::string> number_names;
  std::vector<std::string> localizer_names;
};

struct NodeFeature {
  uint32_t token = 0;   ///< index in the kept tokens
  uint32_t source = 0;  ///< index in StepTokens::nodes
  uint16_t symbol = 0;  ///< row of its hashed symbol
  std::array<float, kNodeValues> values{};
};

/// One step as the model sees it: no ids, no absolute time, no step index.
struct StepFeatures {
  std::vector<uint32_t> source;  ///< kept tokens: index in StepTokens::tokens, original order
  std::vector<int32_t> id;
  std::vector<int32_t> parent;  ///< vocabulary entry of the parent token + 1; 0: root
  std::vector<uint8_t> layer, rank, depth;
  std::vector<uint16_t> position;  ///< in its track, before anything was cut
  std::vector<float> values;       ///< kept tokens x ValueWidth(config)
  std::vector<NodeFeature> nodes;  ///< of the kept tokens
  std::vector<int32_t> logs;       ///< pieces of its log lines, in time order
  std::vector<uint8_t> log_ranks;  ///< by piece: position of its line's rank
  std::vector<float>
      numbers;  ///< standardised: raw columns, then relative to the run's calibration window
  std::vector<float> localizer;
  uint16_t ranks = 0;       ///< of the run
  uint32_t cut_tokens = 0;  ///< did not fit `length`
  uint32_t cut_logs = 0;    ///< did not fit `log_length`
  uint32_t replaced = 0;    ///< numbers that were not finite, seen as 0
};

/// What the operator pointer should say of a step.
enum class PointerTarget : uint8_t {
  kUnused = 0,  ///< a healthy step, or the culprit was cut from the input
  kNone = 1,    ///< the fault has no operator
  kNodes = 2    ///< any of StepTarget::nodes
};

struct StepTarget {
  bool use = false;  ///< false: grey or calibration, excluded from training
  bool abnormal = false;
  int32_t kind = -1;  ///< index in the model's kinds, -1: none or not among them
  int32_t rank = -1;  ///< position in the run's ranks
  PointerTarget pointer = PointerTarget::kUnused;
  std::vector<uint32_t> nodes;  ///< indices in StepFeatures::nodes
};

/// Columns of StepFeatures::values with this configuration.
int64_t ValueWidth(const ModelConfig& config);

/// Throws DataError where a run does not fit the model (vocabulary, columns) or refers outside
/// itself.
void CheckRun(const dataset::TokensFile& run, const InputShape& shape);

/// Indices of the tokens that stay, ascending: all where they fit, else those with the largest
/// residual (ties: earlier).
std::vector<uint32_t> SelectTokens(const dataset::StepTokens& step, const ModelConfig& config);

/// Turns the steps of one run into features; the run must have passed CheckRun.
std::vector<StepFeatures> BuildFeatures(const dataset::TokensFile& run, const InputShape& shape,
                                        const Standardization& standardization,
                                        const LogPieces& pieces, const ModelConfig& config);

/// Targets from the label; `kinds` without 'unknown'.
StepTarget BuildTarget(const dataset::TokensFile& run, const dataset::StepTokens& step,
                       const StepFeatures& features, std::span<const std::string> kinds);

}  // namespace teller::model
