#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/experiment/estimate.h"

namespace teller::experiment {

/// One number of one table (docs/schema/metrics.md). Keys of `row` that do not apply are left out.
struct Cell {
  std::string table;            ///< 'E2'
  nlohmann::ordered_json row;   ///< 'view', 'method', 'mode', 'vocabulary', 'prior', 'kind', ...
  std::string metric;           ///< 'pr_auc'
  std::optional<double> value;  ///< nothing: undefined here
  std::optional<double> low, high;
  bool is_interval = false;  ///< low and high: a 95 % interval; else the range over test runs
  std::optional<double> published;
  int64_t n = 0;  ///< steps the number stands on
  bool stale = false;
};

/// A cell from an estimate; NaN becomes nothing.
Cell MakeCell(std::string table, nlohmann::ordered_json row, std::string metric,
              const Estimate& estimate);
/// A cell from a bare number.
Cell MakeCell(std::string table, nlohmann::ordered_json row, std::string metric, double value,
              int64_t n);

nlohmann::ordered_json ToJson(const Cell& cell);
Cell CellFromJson(const nlohmann::ordered_json& json);

/// metrics.json: the cells with their provenance.
struct MetricsFile {
  std::string experiment;
  std::string config_hash;
  nlohmann::ordered_json provenance =
      nlohmann::ordered_json::object();  ///< commit, version, host, seeds, splits, notes
  std::vector<Cell> cells;
  std::vector<std::string> notes;  ///< one line each: what did not hold, what is missing and why
};
void WriteMetrics(const std::filesystem::path& path, const MetricsFile& metrics,
                  bool force = false);
/// Throws DataError: missing, foreign, another major version.
MetricsFile ReadMetrics(const std::filesystem::path& path);

}  // namespace teller::experiment
