#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "src/dataset/predictions_file.h"
#include "src/dataset/tokens_file.h"
#include "src/model/manifest.h"
#include "src/model/network.h"

namespace teller::model {

/// A trained model, read and checked from its folder.
class Predictor {
 public:
  /// Throws DataError where description, weights or log pieces do not belong together.
  explicit Predictor(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }
  /// Kinds of StepPrediction::kind_probability: the model's, then 'unknown'.
  std::vector<std::string> kinds() const;
  /// One prediction a step, in order; with `scored_only` of the steps alone that tables score.
  /// Throws DataError where the run does not fit the model.
  std::vector<dataset::StepPrediction> Predict(const dataset::TokensFile& run,
                                               bool scored_only = false) const;

 private:
  Manifest manifest_;
  LogPieces pieces_;
  std::unique_ptr<Network> network_;
};

/// Logits of the step head for steps already turned into features.
std::vector<float> AbnormalLogits(const Network& network,
                                  std::span<const StepFeatures* const> steps,
                                  const ModelConfig& config);

/// The best guesses, at most five, from the nodes' probabilities: a guess is a (rank, symbol) with
/// the sum over its nodes, the likeliest of which is named; 'no operator' competes as a guess
/// without symbol and node.
std::vector<dataset::OperatorGuess> RankOperators(const dataset::TokensFile& run,
                                                  const dataset::StepTokens& step,
                                                  const StepFeatures& features,
                                                  std::span<const float> node_log_probability,
                                                  float none_log_probability);

}  // namespace teller::model
