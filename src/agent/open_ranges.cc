#include "src/agent/open_ranges.h"

#include "src/agent/recorder.h"

namespace teller::agent {

namespace {

void WriteOpen(Thread* thread, uint64_t begin, uint32_t name, TellerKind kind,
               uint32_t tid) noexcept {
  WriteRecord(thread, {begin, Now(), name, TELLER_LAYER_ENGINE, kind, TELLER_SOURCE_NVTX, tid,
                       TELLER_RECORD_OPEN});
}

/// Other threads may still run: what they push or pop meanwhile is recorded as it was, or not at
/// all.
void WritePushed(Thread* writer, Thread& thread) noexcept {
  const uint32_t depth = thread.range_depth < kMaxRangeDepth ? thread.range_depth : kMaxRangeDepth;
  for (uint32_t i = 0; i < depth; ++i) {
    PushedRange& range = thread.ranges[i];
    if (range.begin == 0) continue;
    WriteOpen(writer, range.begin, range.name, TELLER_KIND_RANGE, thread.tid);
    range.begin = 0;  // a pop that still comes writes it no second time
  }
}

void WriteStarted(Thread* writer) noexcept {
  const uint32_t used = g_state->started_hint.load(std::memory_order_relaxed);
  for (uint32_t slot = 0; slot < used && slot < kMaxOpenRanges; ++slot) {
    const StartedRange& range = g_state->started[slot];
    if ((range.generation.load(std::memory_order_acquire) & 1u) == 0) continue;
    WriteOpen(writer, range.begin, range.name, TELLER_KIND_START_END, range.tid);
  }
}

}  // namespace

void WriteOpenRanges() noexcept {
  if ((Switches() & kRecordNvtx) == 0) return;
  Thread* writer = CurrentThread();
  if (writer == nullptr) return;
  ForEachThread([writer](Thread& thread) { WritePushed(writer, thread); });
  WriteStarted(writer);
}

}  // namespace teller::agent
