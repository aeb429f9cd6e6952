#include "src/collect/run_id.h"

#include <fmt/format.h>

#include <random>

namespace teller::collect {

std::string RandomRunId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace teller::collect
