#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/localize/baseline.h"

namespace teller::dataset {

/// What healthy steps of the training runs look like, as baseline.h5 keeps it
/// (docs/schema/baseline.md).
struct BaselineFile {
  localize::Baseline baseline;
  std::vector<std::pair<std::string, std::string>>
      inputs;  ///< steps files it was fitted on, with HashFileHex
};

/// Written beside and renamed; throws ConfigError where it exists and `force` is false.
void WriteBaseline(const std::filesystem::path& path, const BaselineFile& baseline,
                   bool force = false);
/// Throws DataError: missing, foreign, truncated, another major version, anything out of range.
BaselineFile ReadBaseline(const std::filesystem::path& path);

}  // namespace teller::dataset
