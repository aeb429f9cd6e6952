#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/experiment/cell.h"

namespace teller::experiment {

/// The trade-off figure over the cells of E3: compression against step F1 and operator macro-F1,
/// the published points in it, ranges over test runs as bars.
std::string TradeOffFigure(std::span<const Cell> cells);

/// A self-contained HTML page: every table, the figure, the notes, the provenance.
std::string HtmlReport(const MetricsFile& metrics);

/// All tables as aligned text, for a terminal.
std::string TextReport(const MetricsFile& metrics);

/// Writes tables/TABLE.{md,csv,tex}, trade_off.svg and report.html into `folder`; answers what was
/// written, in order.
std::vector<std::filesystem::path> WriteReport(const MetricsFile& metrics,
                                               const std::filesystem::path& folder);

}  // namespace teller::experiment
