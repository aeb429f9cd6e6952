#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/core/text_table.h"
#include "src/experiment/cell.h"

namespace teller::experiment {

/// How a number is written.
enum class NumberStyle { kShare, kPercent, kCount, kNumber, kYesNo };

/// One metric column of a table for people.
struct MetricColumn {
  std::string metric;
  std::string header;
  NumberStyle style = NumberStyle::kShare;
  bool shows_range = false;  ///< low and high beside the value
};

/// A table for people over cells: a row for each distinct value of the row keys, in order of
/// appearance.
struct TableLayout {
  std::string table;  ///< 'E2': Cell::table
  std::string title;
  std::vector<std::pair<std::string, std::string>> row_keys;  ///< key in Cell::row, header
  std::vector<MetricColumn> columns;
  std::string caption;      ///< how to read it, below the table
  bool in_terminal = true;  ///< false: only in the files
};

/// The tables of an experiment, in order (docs/design.md, section 9).
std::span<const TableLayout> Layouts();

/// Fills a layout. A published number stands in parentheses, a blank is a head that the method does
/// not fill, '*' marks stale numbers. Columns and row keys that no cell fills are left out.
TextTable FillTable(const TableLayout& layout, std::span<const Cell> cells);

/// '0.912', '0.912 [0.880, 0.940]', '(0.916)'.
std::string FormatCell(const Cell& cell, const MetricColumn& column);

}  // namespace teller::experiment
