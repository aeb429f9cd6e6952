#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/labels.h"
#include "src/dataset/predictions_file.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/tokens_file.h"

namespace teller::experiment {

/// Methods that the model is compared with (docs/protocol.md, section 6), and the classifiers
/// behind the leak controls. All fit on training runs only and may use each run's calibration
/// window, label-free.

/// Names of the dummies, as their predictions and the tables carry them.
inline constexpr const char* kAlwaysPositiveName = "always positive";
inline constexpr const char* kStratifiedName = "stratified dummy";

/// Operators of an experiment by rank and symbol, shared by all its runs.
class OperatorTable {
 public:
  uint32_t Index(RankId rank, std::string_view symbol);
  const std::pair<RankId, std::string>& At(uint32_t index) const { return operators_.at(index); }

 private:
  std::map<std::pair<RankId, std::string>, uint32_t> index_;
  std::vector<std::pair<RankId, std::string>> operators_;
};

/// What the baselines see of a step.
struct BaselineStep {
  int64_t engine_step = 0;
  double position = 0;  ///< in the run, 0 to 1
  int32_t phase = 0;
  int32_t batch_size = 0;
  int32_t bucket = 0;  ///< of the batch size: 1, 2, 3-4, 5-8, ...
  int64_t duration_ns = 0;
  std::vector<std::pair<uint32_t, float>>
      operators;              ///< index, log of own time (host self plus device busy) + 1 us
  std::vector<double> shape;  ///< slice and token counts; only where tokens were given
};

struct BaselineRun {
  std::string run_id;
  std::vector<RankId> ranks;
  std::vector<BaselineStep> steps;
  std::vector<dataset::StepLabel> labels;
};

BaselineRun ExtractRun(const dataset::StepsFile& steps, OperatorTable& operators);
/// Adds the shape of each step's slice and tokens. Throws DataError where the files do not belong
/// together.
void AddShapes(const dataset::TokensFile& tokens, BaselineRun& run);

/// Fits on `train`, answers every step of `scored`.
struct BaselineInputs {
  std::span<const BaselineRun> train;
  std::span<const BaselineRun> scored;
  const OperatorTable* operators = nullptr;
};

/// Largest standardised log-residual of an operator against the healthy median and MAD of its phase
/// and batch bucket, after the run's own shift in its calibration window; names the operators with
/// the largest residuals.
dataset::PredictionsFile OperatorMad(const BaselineInputs& inputs);
/// Log of step time over the calibration median of its phase and batch bucket.
dataset::PredictionsFile StepTimeRatio(const BaselineInputs& inputs);
/// Every step is abnormal.
dataset::PredictionsFile AlwaysPositive(const BaselineInputs& inputs);
/// Abnormal at random, at the training runs' share.
dataset::PredictionsFile Stratified(const BaselineInputs& inputs, int64_t seed);
/// Names the operators most often at fault in the training runs, whatever the step.
dataset::PredictionsFile InjectionPrior(const BaselineInputs& inputs);
/// Logistic regression on position in the run, phase and batch size.
dataset::PredictionsFile ScheduleOnly(const BaselineInputs& inputs);
/// Logistic regression on counts of nodes, slice nodes, tokens, depths and log lines.
dataset::PredictionsFile ShapeOnly(const BaselineInputs& inputs);

}  // namespace teller::experiment
