#include "src/collect/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr std::size_t kBufferRecords = 16384;  // 1 MiB a write

/// Bytes written; fewer where the disk is full.
std::size_t WriteAll(int file, const char* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = write(file, data + done, size - done);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

}  // namespace

bool Spool::Open() {
  if (file_ < 0) file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return file_ >= 0;
}

Spool::~Spool() {
  if (file_ >= 0) close(file_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void Spool::Take(std::span<const TellerRecord> records) {
  buffer_.reserve(kBufferRecords);
  if (buffer_.size() + records.size() > kBufferRecords) Flush();
  buffer_.insert(buffer_.end(), records.begin(), records.end());
}

void Spool::Flush() {
  if (buffer_.empty()) return;
  const std::size_t bytes = buffer_.size() * sizeof(TellerRecord);
  const auto end = static_cast<off_t>(written_ * sizeof(TellerRecord));
  const bool ready = Open() && lseek(file_, end, SEEK_SET) == end;
  const std::size_t done =
      ready ? WriteAll(file_, reinterpret_cast<const char*>(buffer_.data()), bytes) : 0;
  const std::size_t whole = done / sizeof(TellerRecord);
  written_ += whole;  // a part of a record is overwritten by the next
  lost_ += buffer_.size() - whole;
  buffer_.clear();
}

void Spool::Rest() {
  Flush();
  buffer_.shrink_to_fit();
  if (file_ >= 0) close(file_);
  file_ = -1;
}

std::vector<TellerRecord> Spool::Read(uint64_t first, std::size_t count) {
  if (first >= written_) return {};
  if (!Open()) {
    throw DeviceError(
        fmt::format("{}: cannot open the spooled records: {}", path_.string(), strerror(errno)));
  }
  std::vector<TellerRecord> records(std::min<uint64_t>(count, written_ - first));
  char* data = reinterpret_cast<char*>(records.data());
  const std::size_t bytes = records.size() * sizeof(TellerRecord);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pread(file_, data + done, bytes - done,
                              static_cast<off_t>(first * sizeof(TellerRecord) + done));
    if (got <= 0 && errno != EINTR) {
      throw DeviceError(fmt::format("{}: cannot read spooled records back", path_.string()));
    }
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return records;
}

}  // namespace teller::collect
