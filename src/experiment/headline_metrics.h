#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "src/experiment/estimate.h"

namespace teller::experiment {

/// A column of a table.
struct NamedMetric {
  std::string name;
  Metric metric;
};

/// The columns of E2, at the headline prior and its threshold.
const std::vector<NamedMetric>& HeadlineMetrics();
Metric PrAuc(double prior);
/// Share of positives whose operator is among the first `k` named.
Metric TopK(std::size_t k);

/// 'combined', 'horizontal' or 'vertical'.
std::string ViewName(dataset::View view);

/// A row's keys in their order.
nlohmann::ordered_json Row(
    std::initializer_list<std::pair<const char*, nlohmann::ordered_json>> entries,
    const nlohmann::ordered_json& more = {});

/// Levels of magnitude that a row's positives have.
struct Levels {
  int low, high;
  std::string Name() const {
    return low == high ? std::to_string(low) : std::to_string(low) + "-" + std::to_string(high);
  }
};
inline constexpr Levels kAllLevels{1, 5}, kClaimedLevels{2, 5}, kWeakestLevel{1, 1};

}  // namespace teller::experiment
