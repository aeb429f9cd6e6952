#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "src/trace/event.h"

namespace teller::reconstruct {

/// A thread of a process, or a stream of its device.
struct TrackKey {
  uint32_t track = 0;
  bool device = false;
  auto operator<=>(const TrackKey&) const = default;
};

/// The call chains of one track, a vector per field, in pre-order.
struct CallTree {
  TrackKey key;
  std::vector<uint32_t> event;            ///< index among the process's events
  std::vector<int32_t> parent;            ///< position here; -1: root
  std::vector<int32_t> next;              ///< position after the last descendant
  std::vector<uint16_t> depth;            ///< 0: root
  std::vector<int64_t> begin_ns, end_ns;  ///< on the process's clock; cut where intervals crossed
  std::vector<int64_t> self_ns;  ///< duration minus children; adds up to the roots' durations

  std::size_t size() const { return event.size(); }
};

/// What did not fit the rules, by reason.
struct TreeStats {
  int64_t backwards = 0;       ///< ended before they began: taken as of length zero
  int64_t without_timing = 0;  ///< left out
  int64_t joined = 0;  ///< host records of collectives that also have a device record: left out
  int64_t across_threads = 0;  ///< start/end ranges that ended on another thread: left out
  int64_t too_deep = 0;        ///< nested deeper than 65,535: left out
  int64_t cut_to_parent =
      0;  ///< ended after their parent, at most as much outside as inside: cut at its end
  int64_t cut_to_sibling =
      0;  ///< reached into their successor, which lay mostly outside: cut at its begin
};

/// Rebuilds the call trees of one process: one per track, by containment.
///
/// Order: begin; longer first; layer (engine, backend, host_api, device, comm); kind; name;
/// correlation; position in the input. So the same events in any order give the same tree. An
/// interval is inside another that began no later and ends no earlier; it is not inside one that
/// ends where it begins, so an interval of length zero has no children, and one at another's end
/// follows it. Two that cross (streams overlap by 0.7-2 us; clocks of two observers differ) are
/// decided by where most of the later one lies: inside (ties: inside) it is cut at its parent's
/// end, outside it becomes the next sibling and the earlier one is cut at its begin. Children are
/// thus disjoint, and self times never negative.
/// @param events  any order
/// @return        trees by first begin; ties: host before device, lower track first
/// Cost O(n) for a bounded time range (radix sort). Source: docs/design.md, section 7.
std::vector<CallTree> BuildCallTrees(const trace::EventTable& events, TreeStats& stats);

}  // namespace teller::reconstruct
