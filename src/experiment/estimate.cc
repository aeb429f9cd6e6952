#include "src/experiment/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/random.h"

namespace teller::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 500;

/// Steps of one run in its blocks: what is resampled.
using Blocks = std::vector<StepRefs>;
using Runs = std::vector<Blocks>;

/// Steps grouped by run and block, both in order of appearance in `steps` (which are sorted so).
Runs GroupByRun(const StepRefs& steps) {
  Runs runs;
  const ScoredStep* before = nullptr;
  for (const ScoredStep* step : steps) {
    const bool new_run = before == nullptr || before->run_id != step->run_id;
    if (new_run) runs.emplace_back();
    if (new_run || before->block != step->block) runs.back().emplace_back();
    runs.back().back().push_back(step);
    before = step;
  }
  return runs;
}

StepRefs Flatten(const Blocks& blocks) {
  StepRefs steps;
  for (const StepRefs& block : blocks) steps.insert(steps.end(), block.begin(), block.end());
  return steps;
}

double MeanOfDefined(const std::vector<double>& values) {
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kNaN : sum / count;
}

/// The same metric for each run, mean over seeds.
std::vector<double> ValuePerRun(const std::vector<SeedResult>& seeds, const std::vector<Runs>& runs,
                                const Metric& metric) {
  std::vector<double> values;
  for (std::size_t run = 0; run < runs.front().size(); ++run) {
    std::vector<double> by_seed;
    for (std::size_t s = 0; s < seeds.size(); ++s)
      by_seed.push_back(metric(seeds[s], Flatten(runs[s][run])));
    values.push_back(MeanOfDefined(by_seed));
  }
  return values;
}

/// One draw of runs, then of blocks within each. The draws are indices, so that methods can be
/// paired on them.
StepRefs Resample(const Runs& runs, Random& random) {
  StepRefs steps;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Blocks& blocks =
        runs[static_cast<std::size_t>(random.UniformInt(0, static_cast<int64_t>(runs.size()) - 1))];
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto pick =
          static_cast<std::size_t>(random.UniformInt(0, static_cast<int64_t>(blocks.size()) - 1));
      steps.insert(steps.end(), blocks[pick].begin(), blocks[pick].end());
    }
  }
  return steps;
}

void SetBootstrapInterval(const std::vector<SeedResult>& seeds, const std::vector<Runs>& runs,
                          const Metric& metric, uint64_t resampling_seed, Estimate& estimate) {
  std::vector<double> values;
  Random random(resampling_seed, "bootstrap");
  for (int i = 0; i < kResamples; ++i) {
    const auto s =
        static_cast<std::size_t>(random.UniformInt(0, static_cast<int64_t>(seeds.size()) - 1));
    const double value = metric(seeds[s], Resample(runs[s], random));
    if (!std::isnan(value)) values.push_back(value);
  }
  if (values.size() < kResamples / 2) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  estimate.low = at(0.025);
  estimate.high = at(0.975);
  estimate.is_interval = true;
}

void SetRangeOverRuns(const std::vector<double>& per_run, Estimate& estimate) {
  for (const double value : per_run) {
    if (std::isnan(value)) continue;
    estimate.low = std::isnan(estimate.low) ? value : std::min(estimate.low, value);
    estimate.high = std::isnan(estimate.high) ? value : std::max(estimate.high, value);
  }
}

}  // namespace

std::map<double, double> ChooseThresholds(const std::vector<ScoredStep>& validation,
                                          const std::vector<double>& priors) {
  const std::vector<Sample> samples = ScoreSamples(Select(validation, {}));
  std::map<double, double> thresholds;
  for (const double prior : priors) {
    const double threshold = ChooseThreshold(samples, prior);
    thresholds[prior] = std::isnan(threshold) ? std::numeric_limits<double>::infinity() : threshold;
  }
  return thresholds;
}

Estimate EstimateWithinRuns(const std::vector<SeedResult>& seeds, const PositiveFilter& filter,
                            const Metric& metric) {
  Estimate estimate = EstimateMetric(seeds, filter, metric);
  if (std::isnan(estimate.value)) return estimate;
  std::vector<Runs> runs;
  for (const SeedResult& seed : seeds) runs.push_back(GroupByRun(Select(seed.test, filter)));
  const std::vector<double> per_run = ValuePerRun(seeds, runs, metric);
  estimate.value = MeanOfDefined(per_run);
  estimate.low = estimate.high = kNaN;
  estimate.is_interval = false;
  SetRangeOverRuns(per_run, estimate);
  return estimate;
}

Estimate EstimateMetric(const std::vector<SeedResult>& seeds, const PositiveFilter& filter,
                        const Metric& metric, uint64_t resampling_seed) {
  Estimate estimate{.value = kNaN, .low = kNaN, .high = kNaN};
  if (seeds.empty()) return estimate;
  std::vector<double> pooled;
  std::vector<Runs> runs;
  for (const SeedResult& seed : seeds) {
    const StepRefs steps = Select(seed.test, filter);
    pooled.push_back(metric(seed, steps));
    runs.push_back(GroupByRun(steps));
    estimate.steps = static_cast<int64_t>(steps.size());
    estimate.positives =
        std::count_if(steps.begin(), steps.end(), [](auto* step) { return IsPositive(*step); });
  }
  estimate.value = MeanOfDefined(pooled);
  estimate.runs = static_cast<int64_t>(runs.front().size());
  estimate.seeds = static_cast<int64_t>(seeds.size());
  if (std::isnan(estimate.value)) return estimate;
  if (runs.front().size() >= kRunsForInterval) {
    SetBootstrapInterval(seeds, runs, metric, resampling_seed, estimate);
  } else {
    SetRangeOverRuns(ValuePerRun(seeds, runs, metric), estimate);
  }
  return estimate;
}

}  // namespace teller::experiment
