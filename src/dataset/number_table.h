#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/dataset/record_table.h"

namespace teller::dataset {

/// Named float columns, a row a step: the names in /TABLE_names, the columns in /TABLE/NAME.
struct NumberTable {
  std::vector<std::string> names;
  std::vector<std::vector<float>> rows;
};
/// `table` is 'number' for /number_names and /numbers, 'localizer' for /localizer_names and
/// /localizers.
void WriteNumberTable(h5::Group& root, const std::string& table, const NumberTable& numbers,
                      const h5::ColumnOptions& options = kTableOptions);
/// Throws DataError where a column has not `steps` rows.
NumberTable ReadNumberTable(const h5::Group& root, const std::string& table, uint64_t steps);

/// File name and HashFileHex of each file that another was made from.
using Inputs = std::vector<std::pair<std::string, std::string>>;
void WriteInputs(h5::Group& root, const Inputs& inputs, StringInterner& strings);
Inputs ReadInputs(const TableReader& tables);

}  // namespace teller::dataset
