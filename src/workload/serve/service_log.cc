#include "src/workload/serve/service_log.h"

#include <unistd.h>

#include <cstring>
#include <ctime>

namespace teller::serve {
namespace {

std::string process_name = "EngineCore";  // written once, before other threads exist

/// One write, so that lines of several threads and processes never mix.
void WriteLine(const std::string& line) {
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return;  // nobody reads: nothing to tell
}

}  // namespace

void NameServiceLog(const std::string& process) { process_name = process; }

void LogService(const char* file, int line, const char* level, const std::string& text) {
  const char* slash = std::strrchr(file, '/');
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", &local);
  WriteLine("(" + process_name + " pid=" + std::to_string(getpid()) + ") " + level + " " + stamp +
            " [" + (slash != nullptr ? slash + 1 : file) + ":" + std::to_string(line) + "] " +
            text + "\n");
}

void LogHttp(const std::string& text) { WriteLine("INFO:     " + text + "\n"); }

}  // namespace teller::serve
