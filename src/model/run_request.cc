#include "src/model/run_request.h"

#include <iterator>
#include <utility>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/dataset/predictions_file.h"
#include "src/dataset/tokens_file.h"
#include "src/model/predict.h"

namespace teller::model {
namespace {

std::vector<dataset::TokensFile> ReadAll(const std::vector<std::filesystem::path>& paths) {
  std::vector<dataset::TokensFile> runs;
  for (const auto& path : paths) runs.push_back(dataset::ReadTokens(path));
  return runs;
}

std::vector<const dataset::TokensFile*> Pointers(const std::vector<dataset::TokensFile>& runs) {
  std::vector<const dataset::TokensFile*> pointers;
  for (const auto& run : runs) pointers.push_back(&run);
  return pointers;
}

std::string HashInputs(const TrainRequest& request) {
  std::string names;
  for (const auto& path : request.train) names += "train " + HashFileHex(path) + '\n';
  for (const auto& path : request.validation) names += "validation " + HashFileHex(path) + '\n';
  return HashHex(names);
}

}  // namespace

void Train(const TrainRequest& request, const ProgressCall& progress) {
  const std::vector<dataset::TokensFile> train = ReadAll(request.train);
  const std::vector<dataset::TokensFile> validation = ReadAll(request.validation);
  TrainOnRuns(request, Pointers(train), Pointers(validation), HashInputs(request), progress);
}

void Predict(const PredictRequest& request, const ProgressCall& progress) {
  if (std::filesystem::exists(request.output) && !request.force) {
    throw ConfigError(request.output.string() + ": exists already; use --force to replace it");
  }
  const Predictor predictor(request.model);
  dataset::PredictionsFile file;
  file.method = request.method;
  file.seed = predictor.manifest().training.seed;
  file.kinds = predictor.kinds();
  const auto total = static_cast<int64_t>(request.tokens.size());
  for (int64_t i = 0; i < total; ++i) {
    auto steps = predictor.Predict(dataset::ReadTokens(request.tokens[static_cast<std::size_t>(i)]),
                                   request.scored_only);
    std::move(steps.begin(), steps.end(), std::back_inserter(file.steps));
    if (!progress(i + 1, total, "runs")) throw Error("predicting was stopped; nothing was written");
  }
  dataset::WritePredictions(request.output, file, request.force);
}

}  // namespace teller::model
