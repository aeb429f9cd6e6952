#include "src/model/predict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "src/core/error.h"
#include "src/model/calibration.h"

namespace teller::model {
namespace {

constexpr std::size_t kPredictBatch = 64;
constexpr std::size_t kMostGuesses = 5;

constexpr float kLeastLogProbability = -60;  // less is nothing, and slow to take the exponential of

using StepPointers = std::span<const StepFeatures* const>;

/// Offsets of each step's nodes in a batch that keeps all of them.
std::vector<std::size_t> NodeOffsets(StepPointers steps) {
  std::vector<std::size_t> offsets = {0};
  for (const StepFeatures* step : steps) offsets.push_back(offsets.back() + step->nodes.size());
  return offsets;
}

/// Calls `use` with consecutive pieces of at most kPredictBatch steps and the index of their first.
template <typename Use>
void ForPieces(StepPointers steps, Use&& use) {
  for (std::size_t first = 0; first < steps.size(); first += kPredictBatch) {
    use(first, steps.subspan(first, std::min(kPredictBatch, steps.size() - first)));
  }
}

std::vector<const StepFeatures*> ToVector(StepPointers steps) {
  return {steps.begin(), steps.end()};
}

}  // namespace

std::vector<float> AbnormalLogits(const Network& network,
                                  std::span<const StepFeatures* const> steps,
                                  const ModelConfig& config) {
  std::vector<float> logits;
  ForPieces(steps, [&](std::size_t, StepPointers piece) {
    const Outputs outputs = network.Predict(BuildBatch(ToVector(piece), config));
    logits.insert(logits.end(), outputs.abnormal.begin(), outputs.abnormal.end());
  });
  return logits;
}

std::vector<dataset::OperatorGuess> RankOperators(const dataset::TokensFile& run,
                                                  const dataset::StepTokens& step,
                                                  const StepFeatures& features,
                                                  std::span<const float> node_log_probability,
                                                  float none_log_probability) {
  struct Sum {
    double probability = 0;
    float best = -INFINITY;
    NodeId node = kNoNode;
  };
  std::map<std::pair<uint16_t, std::string>, Sum> sums;
  for (std::size_t i = 0; i < features.nodes.size(); ++i) {
    const dataset::TokenNode& node = step.nodes[features.nodes[i].source];
    Sum& sum = sums[{node.rank, run.symbols[Index(node.symbol)]}];
    if (node_log_probability[i] > kLeastLogProbability)
      sum.probability += std::exp(static_cast<double>(node_log_probability[i]));
    if (node_log_probability[i] > sum.best) {
      sum.best = node_log_probability[i];
      sum.node = node.node;
    }
  }
  std::vector<dataset::OperatorGuess> guesses = {
      {kNoRank, "", kNoNode, std::exp(none_log_probability)}};
  for (const auto& [key, sum] : sums) {
    const RankId rank = key.first < run.ranks.size() ? RankId{run.ranks[key.first]} : kNoRank;
    guesses.push_back({rank, key.second, sum.node, static_cast<float>(sum.probability)});
  }
  std::stable_sort(guesses.begin(), guesses.end(),
                   [](const auto& a, const auto& b) { return a.probability > b.probability; });
  if (guesses.size() > kMostGuesses) guesses.resize(kMostGuesses);
  return guesses;
}

Predictor::Predictor(const std::filesystem::path& folder)
    : manifest_(ReadManifest(folder)), pieces_(ReadLogPieces(folder, manifest_)) {
  network_ = std::make_unique<Network>(manifest_.config, manifest_.shape,
                                       static_cast<int64_t>(manifest_.kinds.size()),
                                       manifest_.training.seed);
  network_->parameters().LoadWeights(folder / kWeightsName);
}

std::vector<std::string> Predictor::kinds() const {
  std::vector<std::string> kinds = manifest_.kinds;
  kinds.emplace_back("unknown");
  return kinds;
}

std::vector<dataset::StepPrediction> Predictor::Predict(const dataset::TokensFile& run,
                                                        bool scored_only) const {
  CheckRun(run, manifest_.shape);
  const std::vector<StepFeatures> features =
      BuildFeatures(run, manifest_.shape, manifest_.standardization, pieces_, manifest_.config);
  const std::size_t kinds = manifest_.kinds.size();
  std::vector<const StepFeatures*> wanted;
  std::vector<const dataset::StepTokens*> wanted_steps;
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (scored_only && !IsScored(run.steps[i].label)) continue;
    wanted.push_back(&features[i]);
    wanted_steps.push_back(&run.steps[i]);
  }
  std::vector<dataset::StepPrediction> predictions;
  ForPieces(wanted, [&](std::size_t first, StepPointers piece) {
    const Batch batch = BuildBatch(ToVector(piece), manifest_.config);
    const Outputs outputs = network_->Predict(batch);
    const std::vector<std::size_t> nodes = NodeOffsets(piece);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const dataset::StepTokens& step = *wanted_steps[first + i];
      dataset::StepPrediction prediction;
      prediction.run_id = run.run_id;
      prediction.engine_step = step.engine_step;
      prediction.score = outputs.abnormal[i];
      prediction.probability = CalibratedProbability(manifest_.calibration, outputs.abnormal[i]);
      prediction.kind_probability =
          KindProbabilities(std::span(outputs.kind).subspan(i * kinds, kinds));
      if (!outputs.none.empty() && !piece[i]->id.empty()) {
        const auto span = std::span(outputs.node).subspan(nodes[i], nodes[i + 1] - nodes[i]);
        prediction.operators = RankOperators(run, step, *piece[i], span, outputs.none[i]);
        const auto ranks = static_cast<std::size_t>(batch.ranks);
        for (std::size_t r = 0; r < run.ranks.size(); ++r) {
          prediction.rank_probability.push_back(std::exp(outputs.rank[i * ranks + r]));
        }
      }
      predictions.push_back(std::move(prediction));
    }
  });
  return predictions;
}

}  // namespace teller::model
