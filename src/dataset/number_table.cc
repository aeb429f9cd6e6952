#include "src/dataset/number_table.h"

namespace teller::dataset {
namespace {

struct InputRow {
  std::string name, hash;
};
constexpr auto kInputFields = [](auto visit) {
  visit("name", &InputRow::name);
  visit("hash", &InputRow::hash);
};

}  // namespace

void WriteNumberTable(h5::Group& root, const std::string& table, const NumberTable& numbers,
                      const h5::ColumnOptions& options) {
  root.WriteStrings(table + "_names", numbers.names);
  h5::Group group = root.CreateGroup(table + "s");
  for (std::size_t column = 0; column < numbers.names.size(); ++column) {
    std::vector<float> values;
    values.reserve(numbers.rows.size());
    for (const auto& row : numbers.rows) values.push_back(row.at(column));
    group.Write(numbers.names[column], values, options);
  }
}

NumberTable ReadNumberTable(const h5::Group& root, const std::string& table, uint64_t steps) {
  NumberTable numbers;
  numbers.names = root.ReadStrings(table + "_names");
  numbers.rows.assign(steps, {});
  const h5::Group group = root.OpenGroup(table + "s");
  for (const std::string& name : numbers.names) {
    const auto values = group.Read<float>(name, steps);
    for (std::size_t i = 0; i < values.size(); ++i) numbers.rows[i].push_back(values[i]);
  }
  return numbers;
}

void WriteInputs(h5::Group& root, const Inputs& inputs, StringInterner& strings) {
  std::vector<InputRow> rows;
  for (const auto& [name, hash] : inputs) rows.push_back({name, hash});
  WriteTable(root, "inputs", PointersTo(rows), strings, kInputFields);
}

Inputs ReadInputs(const TableReader& tables) {
  Inputs inputs;
  for (InputRow& row : tables.Read<InputRow>("inputs", kInputFields)) {
    inputs.emplace_back(std::move(row.name), std::move(row.hash));
  }
  return inputs;
}

}  // namespace teller::dataset
