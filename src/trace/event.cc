#include "src/trace/event.h"

#include "src/trace/trace_schema.h"

namespace teller::trace {

void EventTable::Append(const Event& event) {
  begin_ns.push_back(event.begin_ns);
  end_ns.push_back(event.end_ns);
  name.push_back(event.name);
  layer.push_back(event.layer);
  kind.push_back(event.kind);
  track.push_back(event.track);
  correlation.push_back(event.correlation);
  graph_node.push_back(event.graph_node);
  comm.push_back(event.comm);
  sequence.push_back(event.sequence);
  peer.push_back(event.peer);
  bytes.push_back(event.bytes);
  request.push_back(event.request);
  source.push_back(event.source);
  flags.push_back(event.flags);
}

Event EventTable::At(std::size_t index) const {
  return {.begin_ns = begin_ns[index],
          .end_ns = end_ns[index],
          .name = name[index],
          .layer = layer[index],
          .kind = kind[index],
          .track = track[index],
          .correlation = correlation[index],
          .graph_node = graph_node[index],
          .comm = comm[index],
          .sequence = sequence[index],
          .peer = peer[index],
          .bytes = bytes[index],
          .request = request[index],
          .source = source[index],
          .flags = flags[index]};
}

void EventTable::Reserve(std::size_t count) {
  VisitColumns(*this, [count](const char*, auto& column) { column.reserve(count); });
}

void EventTable::Clear() {
  VisitColumns(*this, [](const char*, auto& column) { column.clear(); });
}

std::string_view LayerName(Layer layer) {
  static constexpr std::string_view kNames[] = {"engine", "backend", "host_api", "device", "comm"};
  return kNames[static_cast<int>(layer)];
}

std::string_view KindName(Kind kind) {
  static constexpr std::string_view kNames[] = {
      "range",     "start_end", "mark",      "operator",   "launch",
      "copy_call", "sync_call", "api_other", "kernel",     "memcpy",
      "memset",    "graph",     "sync",      "collective", "point_to_point"};
  return kNames[static_cast<int>(kind)];
}

std::string_view SourceName(Source source) {
  static constexpr std::string_view kNames[] = {"nvtx", "torch", "cupti", "cpu_stream", "import"};
  return kNames[static_cast<int>(source)];
}

}  // namespace teller::trace
