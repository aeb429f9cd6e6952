#include "src/reconstruct/step_forest.h"

#include <algorithm>

namespace teller::reconstruct {

std::string_view PhaseName(Phase phase) {
  static constexpr std::string_view kNames[] = {"unknown", "prefill", "decode", "mixed"};
  return kNames[static_cast<int>(phase)];
}

std::pair<std::size_t, std::size_t> StepForest::TrackNodes(std::size_t track) const {
  const auto range = std::ranges::equal_range(
      nodes, track, {}, [](const StepNode& node) { return std::size_t{node.track}; });
  return {static_cast<std::size_t>(range.begin() - nodes.begin()),
          static_cast<std::size_t>(range.end() - nodes.begin())};
}

}  // namespace teller::reconstruct
