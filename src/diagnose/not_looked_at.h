#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace teller::diagnose {

/// Something of a trace that the diagnosis could not use, and why.
struct NotLookedAt {
  std::string counter;  ///< docs/reconstruction.md
  int64_t count = 0;
  std::string why;
};

/// What of a steps file's counters says that something was left out or taken otherwise than
/// recorded; counters that only tell how things went are passed over.
std::vector<NotLookedAt> FindNotLookedAt(std::span<const std::pair<std::string, int64_t>> counters);

}  // namespace teller::diagnose
