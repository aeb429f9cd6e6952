#include "src/experiment/logistic_regression.h"

#include <algorithm>
#include <cmath>

namespace teller::experiment {
namespace {

constexpr double kRidge = 1e-3;   // keeps separable data finite
constexpr int kNewtonSteps = 25;  // converges in under ten

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Solves a symmetric positive definite system by Cholesky decomposition; `a` is overwritten.
Vector Solve(Matrix& a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) {
      for (std::size_t i = j; i < n; ++i) a[i][j] -= a[i][k] * a[j][k];
    }
    const double pivot = std::sqrt(std::max(a[j][j], 1e-12));
    for (std::size_t i = j; i < n; ++i) a[i][j] /= pivot;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

double Dot(std::span<const double> weights, std::span<const double> row) {
  double sum = weights.back();
  for (std::size_t i = 0; i < row.size(); ++i) sum += weights[i] * row[i];
  return sum;
}

Vector Standardize(std::span<const double> row, const Vector& mean, const Vector& deviation) {
  Vector standard(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) standard[i] = (row[i] - mean[i]) / deviation[i];
  return standard;
}

}  // namespace

void LogisticRegression::Fit(const Matrix& rows, const std::vector<bool>& positive) {
  weights_.clear();
  const double count = static_cast<double>(rows.size());
  const double positives = static_cast<double>(std::count(positive.begin(), positive.end(), true));
  if (positives == 0 || positives == count) return;
  const std::size_t width = rows.front().size();
  mean_.assign(width, 0);
  deviation_.assign(width, 0);
  for (const Vector& row : rows) {
    for (std::size_t i = 0; i < width; ++i) mean_[i] += row[i] / count;
  }
  for (const Vector& row : rows) {
    for (std::size_t i = 0; i < width; ++i)
      deviation_[i] += (row[i] - mean_[i]) * (row[i] - mean_[i]) / count;
  }
  for (double& value : deviation_) value = value > 1e-18 ? std::sqrt(value) : 1;
  Matrix standard;
  for (const Vector& row : rows) standard.push_back(Standardize(row, mean_, deviation_));
  const double positive_weight = .5 / positives, negative_weight = .5 / (count - positives);

  weights_.assign(width + 1, 0);
  for (int step = 0; step < kNewtonSteps; ++step) {
    Vector gradient(width + 1, 0);
    Matrix hessian(width + 1, Vector(width + 1, 0));
    for (std::size_t r = 0; r < standard.size(); ++r) {
      Vector row = standard[r];
      const double probability = Sigmoid(Dot(weights_, row));
      const double weight = positive[r] ? positive_weight : negative_weight;
      row.push_back(1);
      for (std::size_t i = 0; i <= width; ++i) {
        gradient[i] += weight * ((positive[r] ? 1.0 : 0.0) - probability) * row[i];
        for (std::size_t j = 0; j <= i; ++j)
          hessian[i][j] += weight * probability * (1 - probability) * row[i] * row[j];
      }
    }
    for (std::size_t i = 0; i <= width; ++i) {
      gradient[i] -= kRidge * weights_[i];
      hessian[i][i] += kRidge;
      for (std::size_t j = 0; j < i; ++j) hessian[j][i] = hessian[i][j];
    }
    const Vector change = Solve(hessian, gradient);
    for (std::size_t i = 0; i <= width; ++i) weights_[i] += change[i];
  }
}

double LogisticRegression::Score(std::span<const double> row) const {
  return weights_.empty() ? 0 : Dot(weights_, Standardize(row, mean_, deviation_));
}

}  // namespace teller::experiment
