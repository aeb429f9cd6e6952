#include "src/collect/log_gatherer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/collect/thread_cpu.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr int kPeriodMs = 20;
constexpr int kFindFilesEvery = 10;  // periods
/// Between two looks, so that a flood of text costs no core.
constexpr timespec kBreath{0, 1'000'000};

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

}  // namespace

LogGatherer::LogGatherer(const std::filesystem::path& spool_file)
    : lines_(spool_file), changes_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (pipe2(stop_pipe_, O_CLOEXEC) != 0)
    throw DeviceError(fmt::format("cannot make a pipe: {}", strerror(errno)));
  thread_ = std::thread([this] { Run(); });
}

LogGatherer::~LogGatherer() {
  Stop();
  for (const int file : {changes_, stop_pipe_[0], stop_pipe_[1]}) {
    if (file >= 0) close(file);
  }
}

void LogGatherer::WatchFolderOf(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (changes_ >= 0) inotify_add_watch(changes_, folder.c_str(), IN_CREATE | IN_MOVED_TO);
}

void LogGatherer::WatchContent(FollowedFile& file) {
  if (changes_ < 0 || file.watched == file.follower->Identity()) return;
  inotify_add_watch(changes_, file.path.c_str(), IN_MODIFY);
  file.watched = file.follower->Identity();
}

void LogGatherer::AddFile(const std::string& node, const std::string& name,
                          const std::filesystem::path& path, const LogFollower::Options& options) {
  const std::lock_guard lock(mutex_);
  files_.push_back({node, name, path, std::make_unique<LogFollower>(path, options)});
  WatchFolderOf(path);
}

void LogGatherer::AddPattern(const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  patterns_.push_back(pattern);
  FindFiles(true);
}

void LogGatherer::FindFiles(bool from_end) {
  for (const FollowedFile& file : files_) known_files_.insert(file.follower->Identity());
  for (const std::string& pattern : patterns_) {
    for (const std::string& path : Matches(pattern)) {
      struct stat status;
      if (known_paths_.contains(path) || stat(path.c_str(), &status) != 0 ||
          !S_ISREG(status.st_mode))
        continue;
      known_paths_.insert(path);
      if (!known_files_.insert({status.st_dev, status.st_ino}).second) continue;
      files_.push_back(
          {"", path, path,
           std::make_unique<LogFollower>(path, LogFollower::Options{.from_end = from_end})});
      WatchFolderOf(path);
    }
  }
}

void LogGatherer::Follow(bool finish) {
  std::vector<FollowedLine> found;
  std::vector<SpooledLine> lines;
  for (FollowedFile& file : files_) {
    found.clear();
    finish ? file.follower->Finish(found) : file.follower->Poll(found);
    WatchContent(file);
    for (FollowedLine& line : found) {
      lines.push_back({line.read_ns, line.realtime_ns, line.offset, file.node, file.name,
                       std::move(line.text)});
    }
  }
  lines_.Append(lines);
  bytes_.store(lines_.bytes(), std::memory_order_relaxed);
}

void LogGatherer::WaitForChange(int timeout_ms) {
  pollfd waited[] = {{stop_pipe_[0], POLLIN, 0}, {changes_, POLLIN, 0}};
  if (poll(waited, 2, timeout_ms) <= 0 || stopping_) return;
  nanosleep(&kBreath, nullptr);
  char events[4096];
  while (changes_ >= 0 && read(changes_, events, sizeof events) > 0) {
  }
}

void LogGatherer::Run() {
  pthread_setname_np(pthread_self(), "teller-logs");
  for (unsigned period = 1; !stopping_; ++period) {
    {
      const std::lock_guard lock(mutex_);
      if (!patterns_.empty() && period % kFindFilesEvery == 0) FindFiles(false);
      Follow(false);
    }
    WaitForChange(kPeriodMs);
  }
  const std::lock_guard lock(mutex_);
  FindFiles(false);
  Follow(true);
  cpu_ns_ = ThreadCpuNs();
}

void LogGatherer::Stop() {
  stopping_ = true;
  const ssize_t ignored = write(stop_pipe_[1], "", 1);
  if (ignored >= 0 && thread_.joinable()) thread_.join();
}

}  // namespace teller::collect
