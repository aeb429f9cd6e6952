#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/h5/file.h"
#include "src/h5/schema.h"
#include "tests/support/schema_document.h"

namespace teller::testing_support {

/// The document's table and the schema header say the same.
inline void ExpectDocumented(const std::string& document, std::span<const h5::ColumnSpec> columns) {
  std::vector<DocumentedColumn> constants;
  for (const h5::ColumnSpec& column : columns) {
    constants.push_back({column.path, column.type, column.unit});
  }
  EXPECT_EQ(DocumentedColumns(document), constants);
}

/// A file has exactly these columns, of these types; '/GROUP/NAME' stands for any number of
/// columns.
inline void ExpectColumns(const std::filesystem::path& path,
                          std::span<const h5::ColumnSpec> columns) {
  const h5::File file = h5::File::Open(path);
  std::vector<std::string> found;
  const auto add = [&](const std::string& name) {
    for (const h5::ColumnSpec& column : columns) {
      const std::string pattern = column.path;
      const bool any =
          pattern.ends_with("/NAME") && name.starts_with(pattern.substr(0, pattern.size() - 4));
      if (!any && pattern != name) continue;
      EXPECT_EQ(file.root().OpenColumn(name.substr(1)).type_name(), column.type) << name;
      if (found.empty() || found.back() != pattern) found.push_back(pattern);
      return;
    }
    ADD_FAILURE() << "no such column in the schema: " << name;
  };
  for (const std::string& name : file.root().Children()) {
    const bool top = std::any_of(columns.begin(), columns.end(),
                                 [&](const auto& c) { return c.path == "/" + name; });
    if (top) {
      add("/" + name);
      continue;
    }
    for (const std::string& column : file.root().OpenGroup(name).Children()) {
      add("/" + name + "/" + column);
    }
  }
  std::vector<std::string> expected;
  for (const h5::ColumnSpec& column : columns) expected.push_back(column.path);
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
}

}  // namespace teller::testing_support
