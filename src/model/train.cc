#include "src/model/train.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/model/calibration.h"
#include "src/model/checkpoint.h"
#include "src/model/manifest.h"
#include "src/model/network.h"
#include "src/model/predict.h"
#include "src/model/training_set.h"

namespace teller::model {
namespace {

using Runs = std::span<const dataset::TokensFile* const>;

constexpr std::size_t kCalibrationSteps = 1500;  // more add time, not certainty
constexpr double kLastRate = 0.05;               // of the learning rate, at the last update

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

InputShape ShapeOf(const dataset::TokensFile& run, const LogPieces& pieces) {
  return {run.vocabulary_hash, run.vocabulary_size, pieces.size(), run.number_names,
          run.localizer_names};
}

/// One training from runs to folder.
class Trainer {
 public:
  Trainer(const TrainRequest& request, Runs train, Runs validation, const std::string& inputs_hash)
      : request_(request),
        config_(request.config),
        pieces_(config_.modalities.logs ? LogPieces::Train(train, config_.log_vocabulary)
                                        : LogPieces()),
        checkpoint_(request.output, HashHex(ModelConfigJson(config_) + '\n' +
                                            std::to_string(request.seed) + '\n' + inputs_hash)) {
    PrepareManifest(train, validation);
    steps_ = Labelled(train);
    manifest_.training.counts = CountSteps(train, steps_);
    network_ = std::make_unique<Network>(config_, manifest_.shape, kinds(), request.seed);
  }

  void Run(const ProgressCall& progress) {
    const auto plan = PlanBatches(steps_, kinds(), config_, request_.seed);
    losses_ = checkpoint_.Restore(*network_, request_.force);
    while (std::ssize(losses_) < config_.updates) {
      Update(plan[losses_.size()]);
      const bool last = std::ssize(losses_) == config_.updates;
      const bool go_on =
          progress(std::ssize(losses_), config_.updates, "loss " + Number(losses_.back()));
      if (!go_on || (!last && std::ssize(losses_) % config_.checkpoint_every == 0)) {
        checkpoint_.Save(*network_, losses_);
      }
      if (!go_on) {
        throw Error("training stopped after update " + std::to_string(losses_.size()) +
                    "; the same command goes on from " + checkpoint_.folder().string());
      }
    }
  }

  void Calibrate(Runs validation) {
    const LabelledSteps labelled = Labelled(validation);
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < labelled.targets.size(); ++i) {
      if (labelled.targets[i].use) usable.push_back(i);
    }
    const std::size_t stride = usable.size() / kCalibrationSteps + 1;
    std::vector<const StepFeatures*> features;
    std::vector<uint8_t> abnormal;
    for (std::size_t i = 0; i < usable.size(); i += stride) {
      features.push_back(&labelled.features[usable[i]]);
      abnormal.push_back(labelled.targets[usable[i]].abnormal ? 1 : 0);
    }
    manifest_.calibration = FitCalibration(AbnormalLogits(*network_, features, config_), abnormal);
    if (!manifest_.calibration.fitted) {
      manifest_.training.notes.push_back(
          "not calibrated: validation steps lack a class or contradict the model");
    }
  }

  /// Writes beside and renames.
  void Write() {
    const std::filesystem::path& output = request_.output;
    const auto partial = output.parent_path() / ("." + output.filename().string() + "." +
                                                 std::to_string(getpid()) + ".partial");
    std::filesystem::remove_all(partial);
    std::filesystem::create_directories(partial);
    network_->parameters().SaveWeights(partial / kWeightsName);
    if (pieces_.size() > 0) WriteFileAtomically(partial / kLogPiecesName, pieces_.bytes());
    manifest_.training.losses = losses_;
    WriteManifest(partial, manifest_);
    if (request_.force) std::filesystem::remove_all(output);
    std::filesystem::rename(partial, output);
    checkpoint_.Remove();
  }

 private:
  int64_t kinds() const { return static_cast<int64_t>(manifest_.kinds.size()); }

  void PrepareManifest(Runs train, Runs validation) {
    manifest_.config = config_;
    manifest_.shape = ShapeOf(*train.front(), pieces_);
    for (const dataset::TokensFile* run : train) CheckRun(*run, manifest_.shape);
    for (const dataset::TokensFile* run : validation) CheckRun(*run, manifest_.shape);
    manifest_.kinds = CollectKinds(train);
    manifest_.standardization = FitStandardization(train);
    manifest_.training.seed = request_.seed;
    if (config_.modalities.logs && pieces_.size() == 0) {
      manifest_.training.notes.push_back(
          "log lines are not read: none, or too few to train pieces on");
    }
  }

  LabelledSteps Labelled(Runs runs) const {
    return BuildLabelledSteps(runs, manifest_.shape, manifest_.standardization, pieces_, config_,
                              manifest_.kinds);
  }

  void Update(const std::vector<uint32_t>& indices) {
    std::vector<const StepFeatures*> features;
    std::vector<const StepTarget*> targets;
    for (const uint32_t i : indices) {
      features.push_back(&steps_.features[i]);
      targets.push_back(&steps_.targets[i]);
    }
    const auto update = std::ssize(losses_);
    const Batch batch = BuildTrainingBatch(features, targets, kinds(), config_);
    const Losses losses = network_->Train(batch, update, LearningRate(config_, update));
    if (!std::isfinite(losses.total) || !std::isfinite(losses.gradient_norm))
      Diverged(losses, indices);
    losses_.push_back(losses.total);
  }

  [[noreturn]] void Diverged(const Losses& losses, const std::vector<uint32_t>& indices) const {
    const std::string kept = checkpoint_.updates() > 0
                                 ? "the checkpoint of update " +
                                       std::to_string(checkpoint_.updates()) + " stays in " +
                                       checkpoint_.folder().string()
                                 : "no checkpoint was written yet";
    throw Error("training diverged at update " + std::to_string(losses_.size()) +
                " (first step of the batch: " + steps_.names[indices.front()] + "): loss " +
                Number(losses.total) + ", gradient norm " + Number(losses.gradient_norm) + "; " +
                kept + "; lower learning_rate");
  }

  const TrainRequest& request_;
  const ModelConfig& config_;
  LogPieces pieces_;
  Checkpoint checkpoint_;
  Manifest manifest_;
  LabelledSteps steps_;
  std::unique_ptr<Network> network_;
  std::vector<double> losses_;
};

}  // namespace

double LearningRate(const ModelConfig& config, int64_t update) {
  if (update < config.warmup) {
    return config.learning_rate * static_cast<double>(update + 1) /
           static_cast<double>(config.warmup);
  }
  const auto left = static_cast<double>(std::max<int64_t>(1, config.updates - config.warmup));
  const double done = std::min(1.0, static_cast<double>(update - config.warmup) / left);
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return config.learning_rate * (kLastRate + (1 - kLastRate) * wave);
}

void TrainOnRuns(const TrainRequest& request, Runs train, Runs validation,
                 const std::string& inputs_hash, const ProgressCall& progress) {
  if (std::filesystem::exists(request.output) && !request.force) {
    throw ConfigError(request.output.string() + ": exists already; use --force to replace it");
  }
  if (train.empty()) throw DataError("no training run");
  Trainer trainer(request, train, validation, inputs_hash);
  trainer.Run(progress);
  trainer.Calibrate(validation);
  trainer.Write();
}

}  // namespace teller::model
