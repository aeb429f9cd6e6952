#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "src/experiment/experiment_config.h"
#include "src/experiment/split.h"
#include "src/experiment/stage.h"

namespace teller::experiment {

/// Names of the files within a stage's folder.
inline constexpr const char* kStepsFile = "steps.h5";
inline constexpr const char* kBaselineFile = "baseline.h5";
inline constexpr const char* kSlicesFile = "slices.h5";
inline constexpr const char* kVocabularyFile = "vocabulary.json";
inline constexpr const char* kTokensFile = "tokens.h5";
inline constexpr const char* kPredictionsFile = "predictions.h5";
inline constexpr const char* kMetricsFile = "metrics.json";
inline constexpr const char* kSplitsFile = "splits.json";
inline constexpr const char* kModelFolder = "model";

using Paths = std::vector<std::filesystem::path>;
using Report = std::function<void(double share, const std::string& note)>;

/// One training (docs/schema/model_request.md).
struct Training {
  Paths train, validation;  ///< tokens.h5
  int64_t seed = 0;
  std::string config_json;
};
/// Makes the model folder. Throws UnavailableError where libteller_model.so is absent.
void TrainModel(const Training& training, const std::filesystem::path& output,
                const Report& report);
/// Writes the predictions of a model for the runs of `tokens`.
void PredictWithModel(const std::filesystem::path& model, const Paths& tokens,
                      const std::filesystem::path& output, const Report& report);

/// Copies a run's tokens with its labels permuted among its scored steps: what they say must not be
/// learnable.
void PermuteLabels(const std::filesystem::path& tokens, uint64_t seed,
                   const std::filesystem::path& output);

/// What the baselines work on; the same runs in every list, training runs first.
struct BaselineFiles {
  Paths steps, slices, tokens;
  std::size_t train = 0;
  std::vector<int64_t> seeds;  ///< of the stratified dummy
};
/// Writes the predictions of every baseline and control for the runs behind the training runs, a
/// file each, into `folder`.
void PredictBaselines(const BaselineFiles& files, const std::filesystem::path& folder,
                      const Report& report);

/// What a row of the tables stands on.
struct ScoredPredictions {
  VocabularyConfig vocabulary;
  std::string inputs;  ///< 'tokens' or 'full'
  Paths predictions;   ///< one a seed
  Paths tokens;        ///< of all runs with this vocabulary, as in MetricsFiles::splits' order
  std::filesystem::path vocabulary_file;
};

/// Everything the tables are computed from.
struct MetricsInputs {
  std::filesystem::path splits;
  std::filesystem::path baselines;  ///< folder of PredictBaselines
  ScoredPredictions main;           ///< full inputs
  std::vector<ScoredPredictions> sweep;
  Paths permuted_tokens;                  ///< of all runs
  Paths permuted_predictions;             ///< one a seed
  std::size_t train = 0, validation = 0;  ///< how many of the runs
  std::size_t length = 0;                 ///< tokens of a step that the model can take
};
/// Scores everything and writes metrics.json.
void ComputeMetrics(const MetricsInputs& inputs, const std::string& experiment,
                    const std::string& config_hash, const std::filesystem::path& output,
                    const Report& report);

/// Writes splits.json over the runs' own ids, after checking that no two runs hold the same data.
/// The files are of the same runs, in the order train, validation, test.
void WriteSplitOf(const Paths& steps, const Paths& tokens, std::size_t train,
                  std::size_t validation, uint64_t seed, const std::filesystem::path& output);

}  // namespace teller::experiment
