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

}  // namespace teller::experiment
