#pragma once

#include <cstdint>

namespace teller::fault_injection {

/// Asks that the calling thread, which times or samples a fault, runs as soon as it wakes (nice
/// -10): on a busy machine it would wake tens of milliseconds late. Without the right to (no root)
/// nothing changes.
void RunPromptly() noexcept;

/// Waits until `when_ns` on CLOCK_MONOTONIC: spins the last 100 us, which a sleep would overshoot.
void WaitUntilNs(int64_t when_ns) noexcept;

}  // namespace teller::fault_injection
