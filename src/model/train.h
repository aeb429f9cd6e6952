#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "src/dataset/tokens_file.h"
#include "src/model/request.h"

namespace teller::model {

/// Called after every update with a note for people; answering false asks for a clean stop.
using ProgressCall = std::function<bool(int64_t done, int64_t total, const std::string& note)>;

/// Trains on runs in memory; `inputs_hash` names them, so that a checkpoint of other inputs is
/// refused. The folder `request.output` appears when whole. Every `checkpoint_every` updates a
/// checkpoint is kept in OUTPUT.checkpoint, from which the same call goes on later with the same
/// losses; it is removed at the end.
/// @throws ConfigError where the output exists, DataError where runs do not fit each other or a
/// class is empty,
///         Error where the loss is not finite (the last good checkpoint stays) or `progress` asked
///         to stop
void TrainOnRuns(const TrainRequest& request, std::span<const dataset::TokensFile* const> train,
                 std::span<const dataset::TokensFile* const> validation,
                 const std::string& inputs_hash, const ProgressCall& progress);

/// The learning rate of an update (counts from 0): linear warmup, then a cosine down to a
/// twentieth.
double LearningRate(const ModelConfig& config, int64_t update);

}  // namespace teller::model
