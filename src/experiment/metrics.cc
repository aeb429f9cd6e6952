#include "src/experiment/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace teller::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLowest = -std::numeric_limits<double>::infinity();

std::size_t CountPositives(std::span<const Sample> samples) {
  return static_cast<std::size_t>(
      std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return s.positive; }));
}

bool HasBothClasses(std::span<const Sample> samples) {
  const std::size_t positives = CountPositives(samples);
  return positives > 0 && positives < samples.size();
}

double Comparable(double score) { return std::isnan(score) ? kLowest : score; }

/// Samples from the highest score down.
std::vector<Sample> Ranked(std::span<const Sample> samples) {
  std::vector<Sample> ranked(samples.begin(), samples.end());
  for (Sample& sample : ranked) sample.score = Comparable(sample.score);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Sample& a, const Sample& b) { return a.score > b.score; });
  return ranked;
}

/// Calls visit(threshold, rates) at every distinct score, from the highest down.
template <typename Visit>
void ForEachThreshold(std::span<const Sample> samples, Visit visit) {
  const std::vector<Sample> ranked = Ranked(samples);
  const double positives = static_cast<double>(CountPositives(samples));
  const double negatives = static_cast<double>(samples.size()) - positives;
  double flagged_positives = 0, flagged_negatives = 0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    (ranked[i].positive ? flagged_positives : flagged_negatives) += 1;
    if (i + 1 < ranked.size() && ranked[i + 1].score == ranked[i].score) continue;
    visit(ranked[i].score, Rates{flagged_positives / positives, flagged_negatives / negatives});
  }
}

/// Weight of one sample of each class so that all weights sum to 1 and positives to `prior`.
struct ClassWeights {
  double positive, negative;
  double operator()(bool is_positive) const { return is_positive ? positive : negative; }
};

ClassWeights WeightsFor(std::span<const Sample> samples, double prior) {
  const double positives = static_cast<double>(CountPositives(samples));
  const double negatives = static_cast<double>(samples.size()) - positives;
  return {prior / positives, (1 - prior) / negatives};
}

/// A probability calibrated at prior `from`, moved to prior `to`.
double ShiftPrior(double probability, double from, double to) {
  const double for_positive = probability * to / from;
  const double for_negative = (1 - probability) * (1 - to) / (1 - from);
  return for_positive / (for_positive + for_negative);
}

std::vector<Sample> ShiftedProbabilities(std::span<const Sample> samples, double prior) {
  std::vector<Sample> shifted(samples.begin(), samples.end());
  const double natural = NaturalPrior(samples);
  for (Sample& sample : shifted) sample.score = ShiftPrior(sample.score, natural, prior);
  return shifted;
}

bool AllFinite(std::span<const Sample> samples) {
  return std::all_of(samples.begin(), samples.end(),
                     [](const Sample& s) { return std::isfinite(s.score); });
}

}  // namespace

Rates RatesAt(std::span<const Sample> samples, double threshold) {
  const double positives = static_cast<double>(CountPositives(samples));
  const double negatives = static_cast<double>(samples.size()) - positives;
  double flagged_positives = 0, flagged_negatives = 0;
  for (const Sample& sample : samples) {
    if (Comparable(sample.score) >= threshold)
      (sample.positive ? flagged_positives : flagged_negatives) += 1;
  }
  return {positives > 0 ? flagged_positives / positives : kNaN,
          negatives > 0 ? flagged_negatives / negatives : kNaN};
}

BinaryScores ScoresAtPrior(Rates rates, double prior) {
  const double hits = prior * rates.true_positive;
  const double false_alarms = (1 - prior) * rates.false_positive;
  BinaryScores scores;
  scores.accuracy = hits + (1 - prior) * (1 - rates.false_positive);
  scores.precision = hits + false_alarms == 0 ? 0 : hits / (hits + false_alarms);
  scores.recall = rates.true_positive;
  const double sum = scores.precision + scores.recall;
  scores.f1 = sum == 0 ? 0 : 2 * scores.precision * scores.recall / sum;
  return scores;
}

double Median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNaN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNaN : sum / static_cast<double>(values.size());
}

double NaturalPrior(std::span<const Sample> samples) {
  return samples.empty()
             ? kNaN
             : static_cast<double>(CountPositives(samples)) / static_cast<double>(samples.size());
}

double AveragePrecision(std::span<const Sample> samples, double prior) {
  if (!HasBothClasses(samples)) return kNaN;
  double area = 0, recall = 0;
  ForEachThreshold(samples, [&](double, Rates rates) {
    area += (rates.true_positive - recall) * ScoresAtPrior(rates, prior).precision;
    recall = rates.true_positive;
  });
  return area;
}

double RocAuc(std::span<const Sample> samples) {
  if (!HasBothClasses(samples)) return kNaN;
  double area = 0;
  Rates before;
  ForEachThreshold(samples, [&](double, Rates rates) {
    area += (rates.false_positive - before.false_positive) *
            (rates.true_positive + before.true_positive) / 2;
    before = rates;
  });
  return area;
}

double ChooseThreshold(std::span<const Sample> samples, double prior) {
  if (!HasBothClasses(samples)) return kNaN;
  double best = kNaN, best_f1 = -1;
  ForEachThreshold(samples, [&](double threshold, Rates rates) {
    const double f1 = ScoresAtPrior(rates, prior).f1;
    if (f1 > best_f1) {
      best_f1 = f1;
      best = threshold;
    }
  });
  return best;
}

double ExpectedCalibrationError(std::span<const Sample> samples, double prior, std::size_t bins) {
  if (!HasBothClasses(samples) || !AllFinite(samples)) return kNaN;
  const ClassWeights weights = WeightsFor(samples, prior);
  const std::vector<Sample> ranked = Ranked(ShiftedProbabilities(samples, prior));
  double error = 0, mass = 0, gap = 0;
  std::size_t bin = 1;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const double weight = weights(ranked[i].positive);
    mass += weight;
    gap += weight * (ranked[i].score - (ranked[i].positive ? 1.0 : 0.0));
    const bool bin_is_full = mass >= static_cast<double>(bin) / static_cast<double>(bins) - 1e-12;
    if (!bin_is_full && i + 1 < ranked.size()) continue;
    error += std::abs(gap);
    gap = 0;
    while (static_cast<double>(bin) / static_cast<double>(bins) <= mass + 1e-12) ++bin;
  }
  return error;
}

double BrierScore(std::span<const Sample> samples, double prior) {
  if (!HasBothClasses(samples) || !AllFinite(samples)) return kNaN;
  const ClassWeights weights = WeightsFor(samples, prior);
  double sum = 0;
  for (const Sample& sample : ShiftedProbabilities(samples, prior)) {
    const double difference = sample.score - (sample.positive ? 1.0 : 0.0);
    sum += weights(sample.positive) * difference * difference;
  }
  return sum;
}

}  // namespace teller::experiment
