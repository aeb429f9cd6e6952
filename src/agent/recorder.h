#pragma once

#include "src/agent/clock.h"
#include "src/agent/names.h"
#include "src/agent/segments.h"
#include "src/agent/state.h"

namespace teller::agent {

/// Room for one record, or NULL (counted) where the collector is behind. Fill every field, then
/// CommitRecord.
inline TellerRecord* NextRecord(Thread* thread) noexcept {
  if (__builtin_expect(thread->left == 0, false) && !TakeSegment(thread)) {
    CountDrop(TELLER_DROP_NO_SEGMENT);
    return nullptr;
  }
  return thread->next;
}

inline void CommitRecord(Thread* thread) noexcept {
  ++thread->next;
  --thread->left;
  __atomic_store_n(&thread->segment->header.count, TELLER_SEGMENT_RECORDS - thread->left,
                   __ATOMIC_RELEASE);
}

/// What most records have in common; the rest is as of a record without device, communicator and
/// bytes.
struct RecordHead {
  uint64_t begin, end;
  uint32_t name;
  TellerLayer layer;
  TellerKind kind;
  TellerSource source;
  uint32_t track;
  uint16_t flags = 0;
};

inline void FillRecord(TellerRecord& record, const RecordHead& head) noexcept {
  record.begin = head.begin;
  record.end = head.end;
  record.correlation = 0;
  record.bytes = -1;
  record.name = head.name;
  record.track = head.track;
  record.graph_node = 0;
  record.comm = UINT32_MAX;
  record.sequence = -1;
  record.peer = -1;
  record.flags = static_cast<uint16_t>(head.flags | (g_ticks_are_tsc ? TELLER_RECORD_TICKS : 0));
  record.layer = static_cast<uint8_t>(head.layer);
  record.kind = static_cast<uint8_t>(head.kind);
  record.source = static_cast<uint8_t>(head.source);
  record.graph[0] = record.graph[1] = record.graph[2] = 0;
}

/// A record without device, communicator and bytes, whole.
inline void WriteRecord(Thread* thread, const RecordHead& head) noexcept {
  TellerRecord* record = NextRecord(thread);
  if (record == nullptr) return;
  FillRecord(*record, head);
  CommitRecord(thread);
}

}  // namespace teller::agent
