#include "src/experiment/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

#include "src/core/error.h"
#include "src/core/random.h"
#include "src/experiment/logistic_regression.h"
#include "src/experiment/metrics.h"
#include "src/experiment/scored_step.h"

namespace teller::experiment {
namespace {
using dataset::PredictionsFile;
using dataset::StepPrediction;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kGuesses = 5;  // what predictions.h5 keeps
constexpr std::size_t kMinSamples =
    8;  // of a (operator, phase, bucket) row; rarer ones use the operator's own
constexpr double kMadToDeviation = 1.4826;  // of a normal distribution
constexpr double kLeastSpread = .02;  // of log-times: 2 %, under which differences are clock noise

struct RobustFit {
  double median = 0, spread = 1;
  std::size_t count = 0;
};

RobustFit FitRobust(const std::vector<double>& values) {
  RobustFit fit{.median = Median(values), .count = values.size()};
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - fit.median));
  fit.spread = std::max(kLeastSpread, kMadToDeviation * Median(std::move(deviations)));
  return fit;
}

bool IsCalibration(const dataset::StepLabel& label) {
  return (label.reasons & dataset::kReasonCalibration) != 0;
}

/// Healthy history of a training run: negative steps, the calibration window among them.
bool IsHealthy(const dataset::StepLabel& label) {
  return label.status == dataset::LabelStatus::kNegative;
}

/// Phase and batch bucket; -1, -1 stands for any.
using Regime = std::pair<int32_t, int32_t>;
constexpr Regime kAnyRegime{-1, -1};
Regime RegimeOf(const BaselineStep& step) { return {step.phase, step.bucket}; }

/// Median and spread by operator and regime, with the operator's own as fall-back.
class OperatorHistory {
 public:
  void Add(uint32_t op, Regime regime, double value) {
    values_[{op, regime}].push_back(value);
    values_[{op, kAnyRegime}].push_back(value);
  }
  void Fit() {
    for (const auto& [key, values] : values_) fits_[key] = FitRobust(values);
  }
  /// Nothing for an operator that was never seen.
  const RobustFit* Find(uint32_t op, Regime regime) const {
    const auto narrow = fits_.find({op, regime});
    if (narrow != fits_.end() && narrow->second.count >= kMinSamples) return &narrow->second;
    const auto wide = fits_.find({op, kAnyRegime});
    return wide == fits_.end() ? nullptr : &wide->second;
  }

 private:
  std::map<std::pair<uint32_t, Regime>, std::vector<double>> values_;
  std::map<std::pair<uint32_t, Regime>, RobustFit> fits_;
};

/// A run's own median departure by operator, from its calibration window.
std::map<uint32_t, double> CalibrationShifts(const BaselineRun& run,
                                             const OperatorHistory& history) {
  std::map<uint32_t, std::vector<double>> residuals;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (!IsCalibration(run.labels[i])) continue;
    for (const auto& [op, log_time] : run.steps[i].operators) {
      if (const RobustFit* fit = history.Find(op, RegimeOf(run.steps[i])))
        residuals[op].push_back(log_time - fit->median);
    }
  }
  std::map<uint32_t, double> shifts;
  for (auto& [op, values] : residuals) shifts[op] = Median(std::move(values));
  return shifts;
}

StepPrediction Blank(const BaselineRun& run, const BaselineStep& step) {
  return {.run_id = run.run_id, .engine_step = step.engine_step, .score = 0, .probability = kNaN};
}

/// A method that answers each step by itself.
PredictionsFile AnswerEach(
    const std::string& method, std::span<const BaselineRun> scored,
    const std::function<void(const BaselineRun&, std::size_t, StepPrediction&)>& answer) {
  PredictionsFile file{.method = method};
  for (const BaselineRun& run : scored) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      answer(run, i, file.steps.emplace_back(Blank(run, run.steps[i])));
    }
  }
  return file;
}

/// The run's ranks with the residual of each rank's worst operator, as shares.
std::vector<float> RankShares(const BaselineRun& run,
                              const std::vector<dataset::OperatorGuess>& guesses) {
  std::vector<float> shares(run.ranks.size(), 0);
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    if (!guesses.empty() && guesses.front().rank == run.ranks[r]) shares[r] = 1;
  }
  return shares;
}

void NameWorstOperators(const BaselineRun& run, std::vector<std::pair<double, uint32_t>> residuals,
                        const OperatorTable& operators, StepPrediction& prediction) {
  std::sort(residuals.begin(), residuals.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.first, a.second) < std::tuple(-b.first, b.second);
  });
  residuals.resize(std::min(residuals.size(), kGuesses));
  for (const auto& [residual, op] : residuals) {
    const auto& [rank, symbol] = operators.At(op);
    prediction.operators.push_back(
        {.rank = rank, .symbol = symbol, .probability = static_cast<float>(residual)});
  }
  prediction.rank_probability = RankShares(run, prediction.operators);
}

/// Median log step time of a run's calibration window by regime.
std::map<Regime, double> CalibrationStepTimes(const BaselineRun& run) {
  std::map<Regime, std::vector<double>> times;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (!IsCalibration(run.labels[i])) continue;
    const double log_time = std::log(static_cast<double>(run.steps[i].duration_ns) + 1);
    times[RegimeOf(run.steps[i])].push_back(log_time);
    times[kAnyRegime].push_back(log_time);
  }
  std::map<Regime, double> medians;
  for (auto& [regime, values] : times) {
    if (values.size() >= kMinSamples || regime == kAnyRegime)
      medians[regime] = Median(std::move(values));
  }
  return medians;
}

using Features = std::vector<double> (*)(const BaselineStep&);

std::vector<double> ScheduleFeatures(const BaselineStep& step) {
  return {step.position,
          step.position * step.position,
          std::log2(1.0 + step.batch_size),
          step.phase == 1 ? 1.0 : 0.0,
          step.phase == 2 ? 1.0 : 0.0,
          step.phase == 3 ? 1.0 : 0.0};
}

std::vector<double> ShapeFeatures(const BaselineStep& step) { return step.shape; }

PredictionsFile Regress(const std::string& method, const BaselineInputs& inputs,
                        Features features) {
  std::vector<std::vector<double>> rows;
  std::vector<bool> positive;
  for (const BaselineRun& run : inputs.train) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      if (!IsScored(run.labels[i])) continue;
      rows.push_back(features(run.steps[i]));
      positive.push_back(run.labels[i].status == dataset::LabelStatus::kPositive);
    }
  }
  LogisticRegression regression;
  if (!rows.empty()) regression.Fit(rows, positive);
  return AnswerEach(method, inputs.scored,
                    [&](const BaselineRun& run, std::size_t i, StepPrediction& prediction) {
                      prediction.score =
                          static_cast<float>(regression.Score(features(run.steps[i])));
                    });
}

}  // namespace

uint32_t OperatorTable::Index(RankId rank, std::string_view symbol) {
  const auto [found, is_new] = index_.emplace(std::pair(rank, std::string(symbol)),
                                              static_cast<uint32_t>(operators_.size()));
  if (is_new) operators_.push_back(found->first);
  return found->second;
}

BaselineRun ExtractRun(const dataset::StepsFile& steps, OperatorTable& operators) {
  BaselineRun run{.run_id = steps.run.run_id, .labels = steps.labels};
  for (const reconstruct::StepForest& forest : steps.run.steps) {
    if (run.ranks.empty()) run.ranks = forest.ranks;
    BaselineStep step{.engine_step = forest.engine_step,
                      .position = static_cast<double>(run.steps.size()) /
                                  static_cast<double>(steps.run.steps.size()),
                      .phase = static_cast<int32_t>(forest.phase),
                      .batch_size = forest.batch_size,
                      .bucket = static_cast<int32_t>(std::bit_width(
                          static_cast<uint32_t>(std::max(1, forest.batch_size)) - 1)),
                      .duration_ns = forest.end_ns - forest.begin_ns};
    std::map<uint32_t, int64_t> own_time_ns;
    for (const reconstruct::StepNode& node : forest.nodes) {
      const RankId rank = forest.tracks[node.track].rank;
      const std::string_view symbol =
          steps.run.symbols.View(StringId{static_cast<uint32_t>(node.symbol)});
      own_time_ns[operators.Index(rank, symbol)] += node.host_self_ns + node.device_busy_ns;
    }
    for (const auto& [op, ns] : own_time_ns) {
      step.operators.emplace_back(
          op, static_cast<float>(std::log(static_cast<double>(std::max<int64_t>(0, ns)) + 1e3)));
    }
    run.steps.push_back(std::move(step));
  }
  return run;
}

void AddShapes(const dataset::TokensFile& tokens, BaselineRun& run) {
  std::map<int64_t, const dataset::StepTokens*> by_step;
  for (const dataset::StepTokens& step : tokens.steps) by_step[step.engine_step] = &step;
  for (BaselineStep& step : run.steps) {
    const auto found = by_step.find(step.engine_step);
    if (found == by_step.end() || tokens.run_id != run.run_id) {
      throw DataError(fmt::format("tokens of run {} lack step {} of run {}", tokens.run_id,
                                  step.engine_step, run.run_id));
    }
    const dataset::StepTokens& shape = *found->second;
    double depth_sum = 0, depth_most = 0;
    for (const dataset::StepToken& token : shape.tokens) {
      depth_sum += token.depth;
      depth_most = std::max<double>(depth_most, token.depth);
    }
    const double count = static_cast<double>(shape.tokens.size());
    step.shape = {std::log1p(shape.forest_nodes),
                  std::log1p(shape.slice_nodes),
                  std::log1p(count),
                  depth_sum / std::max(1.0, count),
                  depth_most,
                  static_cast<double>(shape.log_text.size())};
  }
}

PredictionsFile OperatorMad(const BaselineInputs& inputs) {
  OperatorHistory history;
  for (const BaselineRun& run : inputs.train) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      if (!IsHealthy(run.labels[i])) continue;
      for (const auto& [op, log_time] : run.steps[i].operators)
        history.Add(op, RegimeOf(run.steps[i]), log_time);
    }
  }
  history.Fit();
  std::map<std::string, std::map<uint32_t, double>> shifts;
  for (const BaselineRun& run : inputs.scored) shifts[run.run_id] = CalibrationShifts(run, history);
  return AnswerEach("operator median/MAD", inputs.scored,
                    [&](const BaselineRun& run, std::size_t i, StepPrediction& prediction) {
                      const std::map<uint32_t, double>& shift = shifts.at(run.run_id);
                      std::vector<std::pair<double, uint32_t>> residuals;
                      for (const auto& [op, log_time] : run.steps[i].operators) {
                        const RobustFit* fit = history.Find(op, RegimeOf(run.steps[i]));
                        if (fit == nullptr) continue;
                        const auto own = shift.find(op);
                        const double centre = fit->median + (own == shift.end() ? 0 : own->second);
                        residuals.emplace_back((log_time - centre) / fit->spread, op);
                        prediction.score =
                            std::max(prediction.score, static_cast<float>(residuals.back().first));
                      }
                      NameWorstOperators(run, std::move(residuals), *inputs.operators, prediction);
                    });
}

PredictionsFile StepTimeRatio(const BaselineInputs& inputs) {
  std::map<std::string, std::map<Regime, double>> medians;
  for (const BaselineRun& run : inputs.scored) medians[run.run_id] = CalibrationStepTimes(run);
  return AnswerEach("step time / bucket median", inputs.scored,
                    [&](const BaselineRun& run, std::size_t i, StepPrediction& prediction) {
                      const std::map<Regime, double>& own = medians.at(run.run_id);
                      auto median = own.find(RegimeOf(run.steps[i]));
                      if (median == own.end()) median = own.find(kAnyRegime);
                      if (median == own.end())
                        return;  // a run without calibration: nothing to hold against
                      const double log_time =
                          std::log(static_cast<double>(run.steps[i].duration_ns) + 1);
                      prediction.score = static_cast<float>(log_time - median->second);
                    });
}

PredictionsFile AlwaysPositive(const BaselineInputs& inputs) {
  return AnswerEach(
      kAlwaysPositiveName, inputs.scored,
      [](const BaselineRun&, std::size_t, StepPrediction& prediction) { prediction.score = 1; });
}

PredictionsFile Stratified(const BaselineInputs& inputs, int64_t seed) {
  double positive = 0, scored = 0;
  for (const BaselineRun& run : inputs.train) {
    for (const dataset::StepLabel& label : run.labels) {
      if (!IsScored(label)) continue;
      scored += 1;
      positive += label.status == dataset::LabelStatus::kPositive ? 1 : 0;
    }
  }
  Random random(static_cast<uint64_t>(seed), kStratifiedName);
  const double share = scored > 0 ? positive / scored : 0;
  PredictionsFile file =
      AnswerEach(kStratifiedName, inputs.scored,
                 [&](const BaselineRun&, std::size_t, StepPrediction& prediction) {
                   prediction.score = random.Bernoulli(share) ? 1 : 0;
                 });
  file.seed = seed;
  return file;
}

PredictionsFile InjectionPrior(const BaselineInputs& inputs) {
  std::map<std::pair<RankId, std::string>, int64_t> counts;
  for (const BaselineRun& run : inputs.train) {
    for (const dataset::StepLabel& label : run.labels) {
      const bool has_operator =
          label.status == dataset::LabelStatus::kPositive && !label.culprit_symbol.empty();
      if (has_operator) ++counts[{label.culprit_rank, label.culprit_symbol}];
    }
  }
  std::vector<std::pair<int64_t, std::pair<RankId, std::string>>> ranked;
  for (const auto& [op, count] : counts) ranked.emplace_back(-count, op);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), kGuesses));
  return AnswerEach("injection-prior guess", inputs.scored,
                    [&](const BaselineRun&, std::size_t, StepPrediction& prediction) {
                      prediction.score = 1;
                      for (const auto& [count, op] : ranked) {
                        prediction.operators.push_back({.rank = op.first, .symbol = op.second});
                      }
                    });
}

PredictionsFile ScheduleOnly(const BaselineInputs& inputs) {
  return Regress("schedule only", inputs, ScheduleFeatures);
}

PredictionsFile ShapeOnly(const BaselineInputs& inputs) {
  return Regress("slice shape only", inputs, ShapeFeatures);
}

}  // namespace teller::experiment
