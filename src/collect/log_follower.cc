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

LogFollower::~LogFollower() {
  if (file_ >= 0) close(file_);
}

bool LogFollower::Open() {
  if (file_ < 0) file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  return file_ >= 0;
}

void LogFollower::Emit(std::size_t begin, std::size_t end, std::vector<FollowedLine>& lines) {
  const std::size_t line_end = end > begin && pending_[end - 1] == '\r' ? end - 1 : end;
  lines.push_back({MonotonicNs(), RealtimeNs(), pending_offset_ + begin,
                   masker_.Mask(std::string_view(pending_).substr(begin, line_end - begin))});
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

void LogFollower::Poll(std::vector<FollowedLine>& lines) {
  if (!Open()) return;
  for (std::size_t total = 0; total < kMaxBytesAPoll;) {
    const std::size_t used = pending_.size();
    pending_.resize(used + kReadBytes);
    const ssize_t got = read(file_, pending_.data() + used, kReadBytes);
    pending_.resize(used + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got <= 0) return;
    total += static_cast<std::size_t>(got);
    Split(lines);
  }
}

void LogFollower::Finish(std::vector<FollowedLine>& lines) {
  for (std::size_t before = lines.size() + 1; before != lines.size();) {
    before = lines.size();
    Poll(lines);
  }
  if (!pending_.empty()) Emit(0, pending_.size(), lines);
  pending_offset_ += pending_.size();
  pending_.clear();
}

}  // namespace teller::collect
