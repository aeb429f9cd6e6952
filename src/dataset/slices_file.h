#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/localize/candidates.h"
#include "src/slice/slice.h"
#include "src/trace/event.h"

namespace teller::dataset {

/// What a slice's node is, so that a vocabulary can be trained without the forest.
struct NodeContext {
  SymbolId symbol{};   ///< in SlicesFile::symbols, the same as in the run's steps.h5
  uint16_t track = 0;  ///< index into the forest's tracks
  trace::Layer layer{};
  float residual = 0;
};

/// The slice of one step and what the localiser said of the step.
struct SliceStep {
  int64_t engine_step = 0;
  slice::CausalSlice slice;
  std::vector<NodeContext> context;  ///< by slice node
  localize::StepSuspects suspects;   ///< node_residual is empty: residuals stand in `context`
};

/// One run as slices.h5 keeps it (docs/schema/slices.md): only steps whose forest is present.
struct SlicesFile {
  std::string run_id;
  slice::SliceOptions options;
  bool calibrated = true;  ///< false: the run's calibration window was not used
  std::vector<std::string> symbols;
  std::vector<SliceStep> steps;
  std::vector<std::pair<std::string, std::string>>
      inputs;  ///< steps.h5 and baseline.h5, with HashFileHex
};

/// Written beside and renamed; throws ConfigError where it exists and `force` is false.
void WriteSlices(const std::filesystem::path& path, const SlicesFile& slices, bool force = false);
/// Throws DataError: missing, foreign, truncated, another major version, anything out of range.
SlicesFile ReadSlices(const std::filesystem::path& path);

}  // namespace teller::dataset
