#pragma once

#include <cstdint>

/// A library of its own that pushes and pops `count` NVTX ranges; answers the nanoseconds of
/// processor time that it took.
extern "C" __attribute__((visibility("default"))) int64_t TellerRunNvtxPairs(int64_t count);
