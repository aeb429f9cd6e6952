#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace teller::experiment {

/// One step of a yes-or-no question: how abnormal a method finds it, and what it is.
/// All functions here are pure; a value that is not defined (no positives, for example) is NaN, and
/// NaN scores count as the lowest score. Source: docs/protocol.md, section 4.
struct Sample {
  double score = 0;
  bool positive = false;
};

/// Shares of the positives and of the negatives that a threshold flags (score >= threshold).
struct Rates {
  double true_positive = 0;
  double false_positive = 0;
};
Rates RatesAt(std::span<const Sample> samples, double threshold);

struct BinaryScores {
  double accuracy = 0;
  double precision = 0;  ///< 0 where nothing is flagged
  double recall = 0;
  double f1 = 0;
};
/// Scores as if a share `prior` of the steps were faulty, reached by weighting the two rates.
BinaryScores ScoresAtPrior(Rates rates, double prior);

/// The upper of the middle two where the count is even; NaN values are left out, NaN of none. O(n).
double Median(std::vector<double> values);
/// NaN of none.
double Mean(std::span<const double> values);

/// Share of positives.
double NaturalPrior(std::span<const Sample> samples);

/// Area under the precision-recall curve as the sum of precision times the step in recall over
/// distinct scores (what scikit-learn calls average precision), with the classes weighted to
/// `prior`. Cost O(n log n).
double AveragePrecision(std::span<const Sample> samples, double prior);

/// Probability that a random positive scores above a random negative, ties counted half.
double RocAuc(std::span<const Sample> samples);

/// The score at which F1 at `prior` is largest; the higher threshold where two are equal. NaN
/// without both classes.
double ChooseThreshold(std::span<const Sample> samples, double prior);

/// Expected calibration error over `bins` bins of equal mass, classes weighted to `prior`; scores
/// are probabilities that were calibrated at the samples' natural prior and are shifted to `prior`
/// by Bayes' rule.
double ExpectedCalibrationError(std::span<const Sample> samples, double prior,
                                std::size_t bins = 10);

/// Mean squared error of the probabilities, weighted and shifted as above.
double BrierScore(std::span<const Sample> samples, double prior);

}  // namespace teller::experiment
