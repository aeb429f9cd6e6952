#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/model/features.h"

namespace teller::model {

/// Features and targets of the steps of some runs, in the order of files and steps.
struct LabelledSteps {
  std::vector<StepFeatures> features;
  std::vector<StepTarget> targets;
  std::vector<std::string> names;  ///< 'RUN step N', for messages only
};

LabelledSteps BuildLabelledSteps(std::span<const dataset::TokensFile* const> runs,
                                 const InputShape& shape, const Standardization& standardization,
                                 const LogPieces& pieces, const ModelConfig& config,
                                 std::span<const std::string> kinds);

/// Fault kinds of the training runs' positive steps, sorted.
std::vector<std::string> CollectKinds(std::span<const dataset::TokensFile* const> runs);

/// What became of every step and token: used, excluded and why, cut; for model.json.
std::map<std::string, int64_t> CountSteps(std::span<const dataset::TokensFile* const> runs,
                                          const LabelledSteps& steps);

/// Which steps every update sees: half positive, kinds in turn, each kind and the healthy steps in
/// a shuffled order of their own that starts again when used up. A function of the seed alone, so a
/// resumed training sees the same. Throws DataError where a class is empty.
std::vector<std::vector<uint32_t>> PlanBatches(const LabelledSteps& steps, int64_t kinds,
                                               const ModelConfig& config, int64_t seed);

}  // namespace teller::model
