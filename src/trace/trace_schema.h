#pragma once

#include <cstddef>

#include "src/h5/schema.h"
#include "src/trace/event.h"

namespace teller::trace {

/// docs/schema/trace.md in constants; a test compares the two.
inline constexpr h5::Schema kTraceSchema{"trace", 1, 0};

/// Rows of a deflated chunk of event columns; a chunk is written once and whole.
inline constexpr std::size_t kEventChunkRows = 8192;
/// Rows of a chunk of the columns that are not deflated and grow by any number of rows.
inline constexpr std::size_t kSmallChunkRows = 512;

/// Columns; N stands for the index of a process.
inline constexpr h5::ColumnSpec kTraceColumns[] = {
    {"/strings", "string", "-"},
    {"/processes/N/begin_ns", "int64", "ns"},
    {"/processes/N/end_ns", "int64", "ns"},
    {"/processes/N/name", "uint32", "string"},
    {"/processes/N/layer", "uint8", "-"},
    {"/processes/N/kind", "uint8", "-"},
    {"/processes/N/track", "uint32", "-"},
    {"/processes/N/correlation", "uint64", "-"},
    {"/processes/N/graph_node", "uint64", "-"},
    {"/processes/N/comm", "uint32", "string"},
    {"/processes/N/sequence", "int32", "-"},
    {"/processes/N/peer", "int32", "rank"},
    {"/processes/N/bytes", "int64", "bytes"},
    {"/processes/N/request", "uint32", "string"},
    {"/processes/N/source", "uint8", "-"},
    {"/processes/N/flags", "uint16", "bits"},
    {"/logs/read_ns", "int64", "ns"},
    {"/logs/realtime_ns", "int64", "ns"},
    {"/logs/process", "int32", "process"},
    {"/logs/file", "uint32", "string"},
    {"/logs/offset", "uint64", "bytes"},
    {"/logs/text", "string", "-"},
    {"/clock/triples/process", "int32", "process"},
    {"/clock/triples/ticks", "uint64", "ticks"},
    {"/clock/triples/monotonic_ns", "int64", "ns"},
    {"/clock/triples/realtime_ns", "int64", "ns"},
    {"/clock/probes/from", "string", "-"},
    {"/clock/probes/to", "string", "-"},
    {"/clock/probes/sent_ns", "int64", "ns"},
    {"/clock/probes/received_ns", "int64", "ns"},
    {"/clock/probes/answered_ns", "int64", "ns"},
    {"/clock/probes/returned_ns", "int64", "ns"},
    {"/stats/name", "string", "-"},
    {"/stats/unit", "string", "-"},
    {"/stats/severity", "uint8", "-"},
    {"/stats/count", "int64", "by unit"},
};

/// Calls `visit(name, vector)` for every column of an EventTable, in the order of the file.
template <typename Table, typename Visit>
void VisitColumns(Table& table, Visit visit) {
  visit("begin_ns", table.begin_ns);
  visit("end_ns", table.end_ns);
  visit("name", table.name);
  visit("layer", table.layer);
  visit("kind", table.kind);
  visit("track", table.track);
  visit("correlation", table.correlation);
  visit("graph_node", table.graph_node);
  visit("comm", table.comm);
  visit("sequence", table.sequence);
  visit("peer", table.peer);
  visit("bytes", table.bytes);
  visit("request", table.request);
  visit("source", table.source);
  visit("flags", table.flags);
}

}  // namespace teller::trace
