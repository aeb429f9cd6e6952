#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/core/interner.h"
#include "src/h5/file.h"

namespace teller::dataset {

inline constexpr h5::ColumnOptions kTableOptions{.chunk_rows = 16384, .deflate = 4};

/// The type a field has in the file: bool as uint8, strings as ids into a table, the rest as it is.
template <typename Field>
using StoredField =
    std::conditional_t<std::is_same_v<Field, bool>, uint8_t,
                       std::conditional_t<std::is_same_v<Field, std::string>, StringId, Field>>;

/// Writes records as a group of columns. `VisitFields(static_cast<const Item*>(nullptr), visit)`,
/// found beside Item, calls visit(name, &Item::field) for every field of the file.
template <typename Item, typename VisitFields>
void WriteTable(h5::Group& parent, const char* name, const std::vector<const Item*>& rows,
                StringInterner& strings, VisitFields visit_fields) {
  h5::Group group = parent.CreateGroup(name);
  visit_fields([&](const char* column, auto member) {
    using Field = std::remove_cvref_t<decltype(std::declval<Item>().*member)>;
    std::vector<StoredField<Field>> values;
    values.reserve(rows.size());
    for (const Item* row : rows) {
      if constexpr (std::is_same_v<Field, std::string>) {
        values.push_back(strings.Intern(row->*member));
      } else {
        values.push_back(static_cast<StoredField<Field>>(row->*member));
      }
    }
    group.Write(column, values, kTableOptions);
  });
}

/// Reads what WriteTable wrote. Throws DataError where columns differ in length (or from `expected`
/// rows) or a string does not exist.
template <typename Item, typename VisitFields>
std::vector<Item> ReadTable(const h5::Group& parent, const char* name,
                            const std::vector<std::string>& strings,
                            std::optional<uint64_t> expected, VisitFields visit_fields) {
  const h5::Group group = parent.OpenGroup(name);
  std::vector<Item> rows;
  visit_fields([&](const char* column, auto member) {
    using Field = std::remove_cvref_t<decltype(std::declval<Item>().*member)>;
    const auto values = group.Read<StoredField<Field>>(column, expected);
    expected = values.size();
    rows.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<Field, std::string>) {
        if (Index(values[i]) >= strings.size()) {
          throw DataError(group.where() + "/" + column + ": string " +
                          std::to_string(Index(values[i])) +
                          " does not exist; the file is damaged");
        }
        rows[i].*member = strings[Index(values[i])];
      } else {
        rows[i].*member = static_cast<Field>(values[i]);
      }
    }
  });
  return rows;
}

}  // namespace teller::dataset
