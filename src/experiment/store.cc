#include "src/experiment/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/version.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {
using Json = nlohmann::ordered_json;

constexpr const char* kRecordName = "stage.json";
constexpr std::size_t kKeyDigits = 16;
constexpr int64_t kLeftoverWaitNs = 30'000'000'000;

fs::path PartialFolder(const fs::path& root, const Stage& stage, const std::string& key) {
  return root / stage.kind / fmt::format(".{}.{}.partial", key, ::getpid());
}

void MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw ConfigError(
        fmt::format("results folder '{}' cannot be made: {}; name another with --output",
                    folder.string(), error.message()));
  }
}

bool WaitForLeftovers(int fd, const fs::path& root) {
  const int64_t deadline_ns = MonotonicNs() + kLeftoverWaitNs;
  for (bool told = false; ::flock(fd, LOCK_EX | LOCK_NB) != 0; told = true) {
    if (!told)
      LogInfo(fmt::format("waiting for processes of a killed run in '{}' to end", root.string()));
    if (Interrupted() || MonotonicNs() > deadline_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

int TakeLock(const fs::path& root) {
  const fs::path path = root / ".lock";
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw ConfigError(
        fmt::format("results folder '{}' cannot be written: {}; name another with --output",
                    root.string(), std::strerror(errno)));
  }
  // Of this process alone: a run that lives is refused at once.
  struct flock own {};
  own.l_type = F_WRLCK;
  // Shared with every process forked meanwhile: what a killed run left is waited for.
  if (::fcntl(fd, F_SETLK, &own) != 0 || !WaitForLeftovers(fd, root)) {
    ::close(fd);
    throw Error(fmt::format(
        "another run is writing '{}'; wait for its end or name another folder with --output",
        root.string()));
  }
  return fd;
}

/// Folders that a run which died left half-written; we hold the lock, so nobody works on them.
void RemovePartialFolders(const fs::path& root) {
  for (const fs::directory_entry& kind : fs::directory_iterator(root)) {
    if (!kind.is_directory()) continue;
    for (const fs::directory_entry& folder : fs::directory_iterator(kind.path())) {
      const std::string name = folder.path().filename().string();
      std::error_code ignored;  // what cannot be removed is never read either
      if (name.starts_with(".") && name.ends_with(".partial"))
        fs::remove_all(folder.path(), ignored);
    }
  }
}

std::vector<fs::path> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

int64_t PeakMemoryBytes() {
  rusage own = {}, children = {};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  return std::max(own.ru_maxrss, children.ru_maxrss) * 1024;
}

/// Processor seconds of this process and its ended children: what a stage costs on an idle machine.
double CpuSeconds() {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    sum += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return sum;
}

Json DescribeHost() {
  utsname name = {};
  ::uname(&name);
  return {{"kernel", std::string(name.release)}, {"cores", sysconf(_SC_NPROCESSORS_ONLN)}};
}

/// stage.json of a folder that is otherwise whole.
Json DescribeStage(const Stage& stage, const StageContext& context, double took_s) {
  Json files = Json::object();
  std::string contents;
  for (const fs::path& file : FilesBelow(context.output)) {
    const std::string hash = HashFileHex(context.output / file);
    files[file.string()] = {{"bytes", fs::file_size(context.output / file)}, {"xxh3_128", hash}};
    contents += file.string() + "\n" + hash + "\n";
  }
  Json inputs = Json::array();
  for (const fs::path& input : context.inputs)
    inputs.push_back(input.parent_path().filename() / input.filename());
  return {{"schema_name", "stage"},
          {"schema_version", "1.0"},
          {"kind", stage.kind},
          {"name", stage.name},
          {"key", context.key},
          {"code_version", stage.version},
          {"settings", stage.settings},
          {"inputs", std::move(inputs)},
          {"files", std::move(files)},
          {"content", HashHex(contents)},
          {"took_s", took_s},
          {"cpu_s", CpuSeconds()},
          {"peak_memory_bytes", PeakMemoryBytes()},
          {"teller_version", Version()},
          {"commit", Commit()},
          {"created_utc", UtcNow()},
          {"host", DescribeHost()}};
}

std::optional<Json> ReadRecord(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / kRecordName, error)) return std::nullopt;
  Json json = Json::parse(ReadFile(folder / kRecordName), nullptr, false);
  if (json.is_discarded() || !json.contains("files") || !json.contains("content"))
    return std::nullopt;
  return json;
}

bool FilesAreWhole(const fs::path& folder, const Json& record) {
  return std::all_of(record["files"].items().begin(), record["files"].items().end(),
                     [&](const auto& file) {
                       std::error_code error;
                       const auto bytes = fs::file_size(folder / file.key(), error);
                       return !error && bytes == file.value().value("bytes", uintmax_t{0});
                     });
}

}  // namespace

StageStore::StageStore(fs::path root) : root_(std::move(root)) {
  MakeFolder(root_);
  lock_fd_ = TakeLock(root_);
  RemovePartialFolders(root_);
}

StageStore StageStore::ForReading(fs::path root) { return StageStore(std::move(root), -1); }

StageStore::StageStore(StageStore&& other) noexcept
    : root_(std::move(other.root_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

StageStore::~StageStore() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::string StageStore::KeyOf(const Stage& stage, const std::vector<std::string>& input_contents) {
  std::string text = fmt::format("{}\n{}\n{}\n", stage.kind, stage.version, stage.settings);
  for (const std::string& content : input_contents) text += content + "\n";
  return HashHex(text).substr(0, kKeyDigits);
}

std::optional<StageRecord> StageStore::Find(const Stage& stage, const std::string& key) const {
  const fs::path folder = root_ / stage.kind / key;
  const std::optional<Json> record = ReadRecord(folder);
  if (!record || !FilesAreWhole(folder, *record)) return std::nullopt;
  return StageRecord{folder, (*record)["content"], record->value("took_s", 0.0),
                     record->value("peak_memory_bytes", int64_t{0})};
}

void StageStore::Make(const Stage& stage, StageContext context) const {
  const fs::path folder = root_ / stage.kind / context.key;
  context.output = PartialFolder(root_, stage, context.key);
  MakeFolder(context.output);
  const int64_t begin_ns = MonotonicNs();
  try {
    stage.make(context);
    const double took_s = static_cast<double>(MonotonicNs() - begin_ns) / 1e9;
    WriteFileAtomically(context.output / kRecordName,
                        DescribeStage(stage, context, took_s).dump(1) + "\n");
    fs::remove_all(folder);  // a damaged result, which Find refused
    fs::rename(context.output, folder);
  } catch (const fs::filesystem_error& error) {
    throw DeviceError(fmt::format("results cannot be written: {}", error.what()));
  } catch (...) {
    std::error_code ignored;  // the next run removes what stays
    fs::remove_all(context.output, ignored);
    throw;
  }
}

std::optional<double> StageStore::MeanTime(const std::string& kind) const {
  std::error_code error;
  double sum = 0;
  int count = 0;
  for (const fs::directory_entry& folder : fs::directory_iterator(root_ / kind, error)) {
    const std::optional<Json> record = ReadRecord(folder.path());
    if (!record) continue;
    sum += record->value("took_s", 0.0);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

}  // namespace teller::experiment
