#include "src/experiment/machine.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

namespace teller::experiment {
namespace {

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Machine DescribeMachine() {
  utsname name = {};
  ::uname(&name);
  struct sysinfo memory = {};
  ::sysinfo(&memory);
  return {.kernel = name.release,
          .cpu = CpuName(),
          .cores = ::sysconf(_SC_NPROCESSORS_ONLN),
          .memory_bytes = static_cast<uint64_t>(memory.totalram) * memory.mem_unit};
}

}  // namespace teller::experiment
