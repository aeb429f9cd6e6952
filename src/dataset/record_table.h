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
                StringInterner& strings, VisitFields visit_fields,
                const h5::ColumnOptions& options = kTableOptions) {
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
    group.Write(column, values, options);
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

template <typename Item>
std::vector<const Item*> PointersTo(const std::vector<Item>& items) {
  std::vector<const Item*> rows;
  rows.reserve(items.size());
  for (const Item& item : items) rows.push_back(&item);
  return rows;
}

/// Hands out consecutive rows of a flat table whose rows belong to steps by count.
template <typename Item>
class Dealer {
 public:
  Dealer(std::string where, std::vector<Item> items)
      : where_(std::move(where)), items_(std::move(items)) {}

  /// Throws DataError where fewer rows are left.
  std::vector<Item> Take(uint32_t count) {
    if (count > items_.size() - next_)
      throw DataError(where_ + ": the counts of steps name more rows than there are");
    const auto first = items_.begin() + static_cast<std::ptrdiff_t>(next_);
    next_ += count;
    return {std::make_move_iterator(first), std::make_move_iterator(first + count)};
  }
  void ExpectEmpty() const {
    if (next_ != items_.size())
      throw DataError(where_ + ": the counts of steps name fewer rows than there are");
  }

 private:
  std::string where_;
  std::vector<Item> items_;
  std::size_t next_ = 0;
};

/// Reads the tables of one file that has its strings in /strings.
class TableReader {
 public:
  explicit TableReader(const h5::Group& root)
      : root_(root), strings_(root.ReadStrings("strings")) {}

  template <typename Item, typename Fields>
  std::vector<Item> Read(const char* name, Fields fields, std::optional<uint64_t> rows = {}) const {
    return ReadTable<Item>(root_, name, strings_, rows, fields);
  }
  template <typename Item, typename Fields>
  Dealer<Item> Deal(const char* name, Fields fields) const {
    return {root_.where() + name, Read<Item>(name, fields)};
  }

 private:
  const h5::Group& root_;
  std::vector<std::string> strings_;
};

}  // namespace teller::dataset
