#pragma once

#include <cstdint>

/// What the operator benchmarks need of torch, in a library of its own, so that teller-benchmarks
/// links none of it. Opened at run time; each function runs `count` records in a loop and answers
/// the nanoseconds it took.
extern "C" {
/// RecordFunction as the dispatcher uses it, with whatever callbacks are registered.
int64_t TellerRunRecordFunctions(int64_t count);
/// The same with one empty callback of ours.
int64_t TellerRunWithEmptyCallback(int64_t count);
/// The same under the torch profiler (CPU activities).
int64_t TellerRunUnderProfiler(int64_t count);
}
