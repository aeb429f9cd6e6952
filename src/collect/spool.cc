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

Spool::Spool(std::filesystem::path path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0)
    throw DeviceError(fmt::format("{}: cannot spool records: {}", path_.string(), strerror(errno)));
  buffer_.reserve(kBufferRecords);
}

Spool::~Spool() {
  close(file_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void Spool::Take(std::span<const TellerRecord> records) {
  if (buffer_.size() + records.size() > kBufferRecords) Flush();
  buffer_.insert(buffer_.end(), records.begin(), records.end());
}

void Spool::Flush() {
  const std::size_t bytes = buffer_.size() * sizeof(TellerRecord);
  const std::size_t done = WriteAll(file_, reinterpret_cast<const char*>(buffer_.data()), bytes);
  const std::size_t whole = done / sizeof(TellerRecord);
  written_ += whole;
  lost_ += buffer_.size() - whole;
  if (done != bytes) {  // leave no part of a record behind
    const auto end = static_cast<off_t>(written_ * sizeof(TellerRecord));
    if (ftruncate(file_, end) == 0) lseek(file_, end, SEEK_SET);
  }
  buffer_.clear();
}

std::vector<TellerRecord> Spool::Read(uint64_t first, std::size_t count) const {
  if (first >= written_) return {};
  std::vector<TellerRecord> records(std::min<uint64_t>(count, written_ - first));
  char* data = reinterpret_cast<char*>(records.data());
  const std::size_t bytes = records.size() * sizeof(TellerRecord);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pread(file_, data + done, bytes - done,
                              static_cast<off_t>(first * sizeof(TellerRecord) + done));
    if (got <= 0 && errno != EINTR)
      throw DeviceError(fmt::format("{}: cannot read spooled records back", path_.string()));
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return records;
}

}  // namespace teller::collect
