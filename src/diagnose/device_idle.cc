#include "src/diagnose/device_idle.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace teller::diagnose {
namespace {

using reconstruct::StepForest;
using reconstruct::StepNode;

/// Disjoint busy intervals of one rank's device, ascending.
using Busy = std::vector<std::pair<int64_t, int64_t>>;

std::map<RankId, Busy> BusyByRank(const StepForest& step) {
  std::map<RankId, Busy> by_rank;
  for (const StepNode& node : step.nodes) {
    const auto& track = step.tracks[node.track];
    // A stream's synthetic root is not work.
    if (!track.device || node.parent == kNoNode) continue;
    by_rank[track.rank].emplace_back(node.begin_ns, node.begin_ns + node.duration_ns);
  }
  for (auto& [rank, intervals] : by_rank) {
    std::sort(intervals.begin(), intervals.end());
    Busy merged;
    for (const auto& [begin, end] : intervals) {
      if (merged.empty() || begin > merged.back().second) {
        merged.emplace_back(begin, end);
      } else {
        merged.back().second = std::max(merged.back().second, end);
      }
    }
    intervals = std::move(merged);
  }
  return by_rank;
}

int64_t BusyBetween(const Busy& busy, int64_t from, int64_t to) {
  auto at = std::upper_bound(busy.begin(), busy.end(), std::pair{from, INT64_MAX});
  if (at != busy.begin()) --at;
  int64_t sum = 0;
  for (; at != busy.end() && at->first < to; ++at)
    sum += std::max<int64_t>(0, std::min(at->second, to) - std::max(at->first, from));
  return sum;
}

}  // namespace

void DropBusyLaunchDelays(const StepForest& step, std::vector<localize::Reading>& readings) {
  const auto busy = BusyByRank(step);
  for (localize::Reading& reading : readings) {
    if (reading.measure != localize::Measure::kLaunchDelay || reading.observed_ns == 0) continue;
    const StepNode& node = step.nodes[Index(reading.node)];
    const auto of_rank = busy.find(step.tracks[node.track].rank);
    if (of_rank == busy.end()) continue;
    reading.observed_ns -=
        BusyBetween(of_rank->second, node.begin_ns - reading.observed_ns, node.begin_ns);
  }
}

}  // namespace teller::diagnose
