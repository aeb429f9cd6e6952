#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "src/model/batch.h"
#include "src/model/features.h"
#include "src/model/model_config.h"
#include "src/model/parameters.h"

namespace teller::model {

/// Losses of one update; a head without targets in the batch has 0.
struct Losses {
  double total = 0, abnormal = 0, kind = 0, pointer = 0, rank = 0;
  double gradient_norm = 0;
};

/// The multimodal transformer: one summary element (step numbers and localiser features enter
/// there), the step's tokens and its log tokens form one sequence; heads read the summary and the
/// tokens. Switched-off parts have no parameters.
class Network {
 public:
  Network(const ModelConfig& config, const InputShape& shape, int64_t kinds, int64_t seed);
  ~Network();

  /// Logits and log probabilities, without dropout. Every step of a batch is computed independently
  /// of the others up to float32 rounding (padding changes the summation order).
  Outputs Predict(const Batch& batch) const;

  /// Losses and gradients of one batch, then one update. `update` seeds the dropout, so that a
  /// resumed training draws the same. Where the loss or the gradient is not finite no weight is
  /// changed.
  Losses Train(const Batch& batch, int64_t update, double learning_rate);

  /// Losses and gradients without an update; gradients stay until the next call.
  Losses Gradients(const Batch& batch, int64_t update);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  ModelConfig config_;
  InputShape shape_;
  int64_t kinds_;
  int64_t seed_;
  Parameters parameters_;
};

}  // namespace teller::model
