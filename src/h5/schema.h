#pragma once

#include <string>
#include <string_view>

#include "src/h5/file.h"

namespace teller::h5 {

/// Name and version of a file format: what docs/schema/NAME.md describes. A reader accepts every
/// minor version of its major one.
struct Schema {
  std::string_view name;
  int major = 1;
  int minor = 0;
};

/// A column as the table of docs/schema/NAME.md lists it.
struct ColumnSpec {
  const char* path;
  const char* type;
  const char* unit;
};

/// The root attributes every file of ours has: schema_name, schema_version, created_by,
/// created_utc, run_id.
void WriteSchema(Group& root, const Schema& schema, std::string_view run_id);

/// Throws DataError where the file is another format, or of another major version.
void CheckSchema(const Group& root, const Schema& schema);

/// The schema_name of a file; empty where it has none.
std::string SchemaName(const Group& root);

}  // namespace teller::h5
