#pragma once

namespace teller::agent {

/// Writes a record, flagged as open and ended now, for every NVTX range that has begun and not
/// ended: of all threads, and those started by nvtxRangeStart. For an orderly exit; a process that
/// is killed or ends by _exit takes its open ranges with it.
void WriteOpenRanges() noexcept;

}  // namespace teller::agent
