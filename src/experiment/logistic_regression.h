#pragma once

#include <span>
#include <vector>

namespace teller::experiment {

/// A small logistic regression: standardised features, balanced classes, ridge. For controls with a
/// handful of features (schedule only, slice shape only), where a transformer would be out of
/// place.
class LogisticRegression {
 public:
  /// Fits by Newton steps, deterministic. Rows are feature vectors of one length; `positive` has a
  /// flag per row. Without both classes the answer is constant.
  void Fit(const std::vector<std::vector<double>>& rows, const std::vector<bool>& positive);

  /// Log-odds of being positive.
  double Score(std::span<const double> row) const;

 private:
  std::vector<double> mean_, deviation_;
  std::vector<double> weights_;  ///< the last is the intercept; empty: constant
};

}  // namespace teller::experiment
