#pragma once

#include <filesystem>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/import_options.h"

namespace teller::interop {

/// Imports `inputs` into a new trace file, written beside and renamed. The file's stats hold every
/// counter, and the source's categories under 'source:NAME'.
/// Throws ConfigError where `output` exists and `force` is false, DataError as PlanImport and
/// RunImport do, DeviceError on no space.
ImportLog ImportToFile(const std::vector<std::filesystem::path>& inputs,
                       const std::filesystem::path& output, bool force,
                       const ImportOptions& options);

}  // namespace teller::interop
