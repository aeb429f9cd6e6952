#include "src/experiment/machine.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace teller::experiment {
namespace {

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Time since boot in ticks of all processors together.
struct ProcessorTime {
  int64_t total = 0, idle = 0;
};

ProcessorTime ReadProcessorTime() {
  ProcessorTime time;
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  constexpr int kIdle = 3, kWaiting = 4, kFields = 8;  // guest time is in user time already
  int64_t ticks = 0;
  for (int field = 0; field < kFields && stat >> ticks; ++field) {
    time.total += ticks;
    if (field == kIdle || field == kWaiting) time.idle += ticks;
  }
  return time;
}

}  // namespace

double MeasureBusyShare() {
  const ProcessorTime before = ReadProcessorTime();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const ProcessorTime after = ReadProcessorTime();
  if (after.total <= before.total) return 0;
  return 1 - static_cast<double>(after.idle - before.idle) /
                 static_cast<double>(after.total - before.total);
}

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
