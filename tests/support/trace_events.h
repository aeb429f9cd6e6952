#pragma once

#include <cstdint>

#include "src/trace/event.h"

namespace teller::testing_support {

/// An event all of whose fields follow from `row`, so that any changed value shows. Strings are
/// below `strings`.
inline trace::Event EventOfRow(uint64_t row, uint32_t strings) {
  const auto mixed = row * 0x9e3779b97f4a7c15u;
  trace::Event event;
  event.begin_ns = static_cast<int64_t>(row * 1000);
  event.end_ns = event.begin_ns + static_cast<int64_t>(mixed >> 54);
  event.name = StringId{static_cast<uint32_t>(mixed % strings)};
  event.layer = static_cast<trace::Layer>(row % trace::kLayerCount);
  event.kind = static_cast<trace::Kind>(row % trace::kKindCount);
  event.track = static_cast<uint32_t>(mixed >> 40);
  event.correlation = mixed;
  event.graph_node = mixed ^ row;
  event.comm = row % 3 == 0 ? kNoString : StringId{static_cast<uint32_t>(row % strings)};
  event.sequence = static_cast<int32_t>(row) - 1;
  event.peer = static_cast<int32_t>(row % 5) - 1;
  event.bytes = static_cast<int64_t>(mixed >> 20) - 1;
  event.request = kNoString;
  event.source = static_cast<trace::Source>(row % trace::kSourceCount);
  event.flags = static_cast<uint16_t>(mixed >> 48);
  return event;
}

inline trace::EventTable EventsOfRows(uint64_t first, uint64_t count, uint32_t strings) {
  trace::EventTable events;
  events.Reserve(count);
  for (uint64_t row = first; row < first + count; ++row) events.Append(EventOfRow(row, strings));
  return events;
}

}  // namespace teller::testing_support
