#pragma once

#include <cstdint>

#include "src/agent/state.h"

namespace teller::agent {

/// Creates this process's pool file in the run folder, with memory for the header and the first
/// names only. Fills g_state->pool, names and segments. False when the folder is full or not
/// writable: then nothing is captured.
bool CreatePool() noexcept;

/// Gives memory to segments until `free_wanted` are free or the pool is at its full size. Memory is
/// claimed before it is written, since a write to a full tmpfs would end the target by SIGBUS.
void GrowPool(uint32_t free_wanted) noexcept;

/// Gives memory to the name table up to `bytes`. False when there is none.
bool BackNameTable(uint32_t bytes) noexcept;

/// Gives `thread` a segment with room. False: none is free, so the record is dropped and counted.
bool TakeSegment(Thread* thread) noexcept;

/// Leaves the segment of a thread that ends to the next thread that needs one.
void KeepSpareSegment(Thread* thread) noexcept;

/// Writes one clock triple into the pool's ring. One caller at a time.
void WriteClockTriple() noexcept;

/// Segments at first, and how many shall be free when the background thread looks.
inline constexpr uint32_t kFirstSegments = 16;
inline constexpr uint32_t kFreeSegmentsWanted = 32;

}  // namespace teller::agent
