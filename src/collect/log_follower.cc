#include "src/collect/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/core/clock.h"

namespace teller::collect {

namespace {

constexpr std::size_t kReadBytes = 65536;
constexpr std::size_t kMaxBytesAPoll = 16u << 20;  // a flood of text must not hold up the rings

}  // namespace

LogFollower::LogFollower(std::filesystem::path path, const Options& options)
    : path_(std::move(path)) {
  if (!options.stamps.empty()) stamp_file_ = open(options.stamps.c_str(), O_RDONLY | O_CLOEXEC);
  if (!options.from_end || !Open()) return;
  const off_t end = lseek(file_, 0, SEEK_END);
  read_bytes_ = end > 0 ? end : 0;
  pending_offset_ = static_cast<uint64_t>(read_bytes_);
}

LogFollower::~LogFollower() {
  if (file_ >= 0) close(file_);
  if (stamp_file_ >= 0) close(stamp_file_);
}

bool LogFollower::Open() {
  if (file_ >= 0) return true;
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file_ < 0 || fstat(file_, &status) != 0) return false;
  inode_ = status.st_ino;
  device_ = status.st_dev;
  read_bytes_ = 0;
  return true;
}

void LogFollower::EndLastLine(std::vector<FollowedLine>& lines) {
  if (!pending_.empty()) Emit(0, pending_.size(), lines);
  pending_.clear();
  pending_offset_ = 0;
}

bool LogFollower::Rotate(std::vector<FollowedLine>& lines) {
  struct stat ours, named;
  if (fstat(file_, &ours) == 0 && ours.st_size < read_bytes_) {  // cut back
    EndLastLine(lines);
    lseek(file_, 0, SEEK_SET);
    read_bytes_ = 0;
    return true;
  }
  if (stat(path_.c_str(), &named) != 0 || (named.st_ino == inode_ && named.st_dev == device_)) {
    return false;
  }
  ReadOn(lines);  // what came between our last read and the change
  EndLastLine(lines);
  close(file_);
  file_ = -1;
  return Open();
}

void LogFollower::Emit(std::size_t begin, std::size_t end, std::vector<FollowedLine>& lines) {
  const std::size_t line_end = end > begin && pending_[end - 1] == '\r' ? end - 1 : end;
  const LogStamp stamp = StampOf(pending_offset_ + (end > begin ? end - 1 : begin));
  lines.push_back({stamp.monotonic_ns, stamp.realtime_ns, pending_offset_ + begin,
                   masker_.Mask(std::string_view(pending_).substr(begin, line_end - begin))});
}

LogStamp LogFollower::StampOf(uint64_t offset) {
  while (stamp_file_ >= 0 && stamp_.end <= offset) {
    LogStamp next;
    if (read(stamp_file_, &next, sizeof next) != sizeof next) break;
    stamp_ = next;
  }
  return stamp_.end > offset ? stamp_ : LogStamp{0, MonotonicNs(), RealtimeNs()};
}

void LogFollower::Split(std::vector<FollowedLine>& lines) {
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = pending_.find('\n', begin);
    const std::size_t length = (end == std::string::npos ? pending_.size() : end) - begin;
    if (length > kMaxLineBytes) {
      Emit(begin, begin + kMaxLineBytes, lines);
      begin += kMaxLineBytes;
    } else if (end != std::string::npos) {
      Emit(begin, end, lines);
      begin = end + 1;
    } else {
      break;
    }
  }
  pending_.erase(0, begin);
  pending_offset_ += begin;
}

void LogFollower::ReadOn(std::vector<FollowedLine>& lines) {
  for (std::size_t total = 0; total < kMaxBytesAPoll;) {
    const std::size_t used = pending_.size();
    pending_.resize(used + kReadBytes);
    const ssize_t got = read(file_, pending_.data() + used, kReadBytes);
    pending_.resize(used + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got <= 0) return;
    read_bytes_ += got;
    total += static_cast<std::size_t>(got);
    Split(lines);
  }
}

void LogFollower::Poll(std::vector<FollowedLine>& lines) {
  if (!Open()) return;
  ReadOn(lines);
  if (Rotate(lines)) ReadOn(lines);
}

void LogFollower::Finish(std::vector<FollowedLine>& lines) {
  for (std::size_t before = lines.size() + 1; before != lines.size();) {
    before = lines.size();
    Poll(lines);
  }
  EndLastLine(lines);
}

}  // namespace teller::collect
