#include "src/agent/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "src/abi/control.h"

namespace teller::agent {

namespace {

Settings settings;
bool loaded;

void Copy(char* to, std::size_t size, const char* from) {
  if (from == nullptr) from = "";
  const std::size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

/// Bytes read; always closed by a zero.
std::size_t ReadProcFile(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  text[0] = 0;
  if (file < 0) return 0;
  const ssize_t got = read(file, text, size - 1);
  close(file);
  const std::size_t length = got > 0 ? static_cast<std::size_t>(got) : 0;
  text[length] = 0;
  return length;
}

int32_t ParseRank(const char* text) {
  if (text == nullptr || *text == 0) return -1;
  char* end = nullptr;
  const long value = strtol(text, &end, 10);
  return *end == 0 && value >= 0 && value < (1 << 24) ? static_cast<int32_t>(value) : -1;
}

/// One '_XY12' part of a worker's title.
struct TitlePart {
  bool tensor_parallel;
  int32_t number;
};

/// Moves `text` past the part; false where there is none.
bool TakeTitlePart(const char*& text, TitlePart& part) {
  if (text[0] != '_') return false;
  const char* letters = text + 1;
  const char* digits = letters;
  while (*digits >= 'A' && *digits <= 'Z') ++digits;
  const char* end = digits;
  int32_t number = 0;
  while (*end >= '0' && *end <= '9' && number < (1 << 20)) number = number * 10 + (*end++ - '0');
  if (digits == letters || end == digits) return false;
  part = {digits - letters == 2 && memcmp(letters, "TP", 2) == 0, number};
  text = end;
  return true;
}

}  // namespace

const Settings& LoadSettings() noexcept {
  if (loaded) return settings;
  loaded = true;
  const char* run_dir = getenv("TELLER_RUN_DIR");
  settings.on = run_dir != nullptr && *run_dir != 0 && strlen(run_dir) < sizeof settings.run_dir;
  Copy(settings.run_dir, sizeof settings.run_dir, run_dir);
  if (gethostname(settings.host, sizeof settings.host) != 0) settings.host[0] = 0;
  settings.host[sizeof settings.host - 1] = 0;
  const char* node = getenv("TELLER_NODE");
  Copy(settings.node, sizeof settings.node, node != nullptr && *node != 0 ? node : settings.host);
  settings.rank = ParseRank(getenv("RANK"));
  Copy(settings.next_nvtx, sizeof settings.next_nvtx, getenv(kNextNvtxVariable));
  Copy(settings.next_activity, sizeof settings.next_activity, getenv(kNextActivityVariable));
  Copy(settings.next_cuda, sizeof settings.next_cuda, getenv(kNextCudaVariable));
  Copy(settings.cupti_library, sizeof settings.cupti_library, getenv("TELLER_CUPTI_LIBRARY"));
  return settings;
}

uint64_t ProcessStartTicks() noexcept {
  char text[1024];
  ReadProcFile("/proc/self/stat", text, sizeof text);
  const char* field = strrchr(text, ')');  // the name before it may hold anything
  if (field == nullptr) return 0;
  constexpr int kFieldsAfterName = 20;  // field 22 is the 20th after the name
  for (int i = 0; i < kFieldsAfterName; ++i) {
    field = strchr(field + 1, ' ');
    if (field == nullptr) return 0;
  }
  return strtoull(field + 1, nullptr, 10);
}

void CommandLine(char* text, uint32_t size) noexcept {
  std::size_t length = ReadProcFile("/proc/self/cmdline", text, size);
  while (length > 0 && text[length - 1] == 0) --length;
  for (std::size_t i = 0; i < length; ++i) {
    if (text[i] == 0) text[i] = ' ';
  }
}

void ShortName(char* text, uint32_t size) noexcept {
  const std::size_t length = ReadProcFile("/proc/self/comm", text, size);
  if (length > 0 && text[length - 1] == '\n') text[length - 1] = 0;
}

int32_t RankOfTitle(const char* title) noexcept {
  const char* worker = strstr(title, "Worker_");
  const char* space = strchr(title, ' ');
  if (worker == nullptr || (space != nullptr && space < worker)) return -1;
  const char* text = worker + strlen("Worker");
  TitlePart part;
  int32_t rank = -1;
  bool others_above_zero = false;
  while (TakeTitlePart(text, part)) {
    if (part.tensor_parallel) {
      rank = part.number;
    } else if (part.number > 0) {
      others_above_zero = true;
    }
  }
  return others_above_zero ? -1 : rank;
}

uint32_t PidNamespace() noexcept {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<uint32_t>(status.st_ino) : 0;
}

}  // namespace teller::agent
