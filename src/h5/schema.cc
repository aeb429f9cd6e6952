#include "src/h5/schema.h"

#include <fmt/format.h>

#include <charconv>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/version.h"

namespace teller::h5 {

void WriteSchema(Group& root, const Schema& schema, std::string_view run_id) {
  root.SetAttribute("schema_name", schema.name);
  root.SetAttribute("schema_version", fmt::format("{}.{}", schema.major, schema.minor));
  root.SetAttribute("created_by", fmt::format("teller {} ({})", Version(), Commit()));
  root.SetAttribute("created_utc", UtcNow());
  root.SetAttribute("run_id", run_id);
}

std::string SchemaName(const Group& root) {
  return root.HasAttribute("schema_name") ? root.GetString("schema_name") : std::string();
}

void CheckSchema(const Group& root, const Schema& schema) {
  const std::string name = SchemaName(root);
  if (name != schema.name) {
    throw DataError(
        fmt::format("{}: expected a file of schema '{}', found {}", root.where(), schema.name,
                    name.empty() ? "no schema_name (not a file of ours)" : "'" + name + "'"));
  }
  const std::string version = root.GetString("schema_version");
  int major = -1;
  std::from_chars(version.data(), version.data() + version.size(), major);
  if (major != schema.major) {
    throw DataError(
        fmt::format("{}: schema '{}' has version '{}', this program reads {}.x; re-create the file",
                    root.where(), schema.name, version, schema.major));
  }
}

}  // namespace teller::h5
