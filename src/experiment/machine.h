#pragma once

#include <cstdint>
#include <string>

namespace teller::experiment {

/// What a number was measured on.
struct Machine {
  std::string kernel;  ///< release
  std::string cpu;     ///< model name
  int64_t cores = 0;
  uint64_t memory_bytes = 0;
};

Machine DescribeMachine();

/// Share of all processors' time, 0 to 1, that was used in the next half second, by whomever; 0
/// where /proc/stat cannot be read.
double MeasureBusyShare();

}  // namespace teller::experiment
