#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/experiment/cell.h"
#include "src/experiment/overhead_run.h"

namespace teller::experiment {

/// Cells of E9 (docs/overhead.md). Metrics: `tpot_ms`, `ttft_ms`, `tokens_per_s` (medians over
/// stretches), `tpot_ratio`, `ttft_ratio`, `tokens_ratio` (against `off` in the same block; of
/// `off` against `not attached` of the neighbouring start) with a 95 % bootstrap interval,
/// `drain_cpu`, `pool_mib`.
std::vector<Cell> OverheadCells(const OverheadConfig& config,
                                const std::vector<StretchMeasure>& stretches);

/// For people: a row a workload, concurrency and mode.
std::string OverheadTable(const std::vector<Cell>& cells);

/// The TPOT ratios as SVG: a panel a workload.
std::string OverheadFigure(const std::vector<Cell>& cells);

/// The stretches as CSV, one a line, for other people's statistics.
std::string StretchesCsv(const std::vector<StretchMeasure>& stretches);

struct OverheadOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string workload;  ///< only the one of that name; empty: all
  std::filesystem::path
      output;          ///< folder; gets metrics.json, stretches.csv, table.txt, figure.svg
  double limit_s = 0;  ///< of the whole; 0: what the file says
};

/// Measures and writes the files. Throws as MeasureOverhead and LoadOverhead do.
MetricsFile RunOverhead(const OverheadOptions& options);

}  // namespace teller::experiment
