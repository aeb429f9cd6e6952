#pragma once

#include "src/trace/event.h"

namespace teller::interop {

/// Calls `visit(left_column, right_column)` for every column of two tables.
template <typename Left, typename Right, typename Visit>
void VisitColumnPairs(Left& left, Right& right, Visit visit) {
  visit(left.begin_ns, right.begin_ns);
  visit(left.end_ns, right.end_ns);
  visit(left.name, right.name);
  visit(left.layer, right.layer);
  visit(left.kind, right.kind);
  visit(left.track, right.track);
  visit(left.correlation, right.correlation);
  visit(left.graph_node, right.graph_node);
  visit(left.comm, right.comm);
  visit(left.sequence, right.sequence);
  visit(left.peer, right.peer);
  visit(left.bytes, right.bytes);
  visit(left.request, right.request);
  visit(left.source, right.source);
  visit(left.flags, right.flags);
}

}  // namespace teller::interop
