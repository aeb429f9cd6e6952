#include "src/collect/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include "src/collect/write_all.h"
#include "src/core/error.h"

namespace teller::collect {

bool Spool::Open() {
  if (file_ < 0) file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return file_ >= 0;
}

Spool::Spool(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code absent;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, absent);
  written_ = absent ? 0 : bytes / sizeof(TellerRecord);
}

Spool::~Spool() { Rest(); }

void Spool::Take(std::span<const TellerRecord> records) {
  if (records.empty()) return;
  const auto end = static_cast<off_t>(written_ * sizeof(TellerRecord));
  const bool ready = Open() && lseek(file_, end, SEEK_SET) == end;
  const std::size_t done =
      ready ? WriteAll(file_, reinterpret_cast<const char*>(records.data()), records.size_bytes())
            : 0;
  const std::size_t whole = done / sizeof(TellerRecord);
  written_ += whole;  // a part of a record is overwritten by the next
  lost_ += records.size() - whole;
}

void Spool::Rest() {
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
