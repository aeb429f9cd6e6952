#include "src/core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "src/core/error.h"

namespace teller {
namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path destination, bool force) : destination_(std::move(destination)) {
  std::error_code ignored;
  if (!force && fs::exists(destination_, ignored)) {
    throw ConfigError(fmt::format("'{}' exists already; choose another name or pass --force",
                                  destination_.string()));
  }
  const fs::path folder =
      destination_.has_parent_path() ? destination_.parent_path() : fs::path(".");
  if (access(folder.c_str(), W_OK) != 0) {
    throw ConfigError(fmt::format("cannot write '{}': folder '{}': {}", destination_.string(),
                                  folder.string(), std::strerror(errno)));
  }
  temporary_ = folder / fmt::format(".{}.{}.partial", destination_.filename().string(), getpid());
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_) fs::remove(temporary_, ignored);
}

void AtomicFile::Commit() {
  const int fd = open(temporary_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int sync_error = errno;
  if (fd >= 0) close(fd);
  if (!synced) {
    throw DeviceError(
        fmt::format("writing '{}' failed: {}", destination_.string(), std::strerror(sync_error)));
  }
  std::error_code error;
  fs::rename(temporary_, destination_, error);
  if (error)
    throw DeviceError(
        fmt::format("renaming to '{}' failed: {}", destination_.string(), error.message()));
  committed_ = true;
}

void WriteFileAtomically(const fs::path& destination, std::string_view text, bool force) {
  AtomicFile file(destination, force);
  std::ofstream out(file.path(), std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out)
    throw DeviceError(
        fmt::format("writing '{}' failed: {}", destination.string(), std::strerror(errno)));
  file.Commit();
}

void RequireRegularFile(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    throw DataError(fmt::format("cannot look at '{}': {}", path.string(), error.message()));
  if (!fs::exists(status)) throw DataError(fmt::format("'{}' does not exist", path.string()));
  if (fs::is_directory(status))
    throw DataError(fmt::format("'{}' is a folder, not a file", path.string()));
  if (!fs::is_regular_file(status))
    throw DataError(fmt::format("'{}' is not a regular file", path.string()));
  if (::access(path.c_str(), R_OK) != 0)
    throw DataError(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
}

std::string ReadFile(const fs::path& path, std::size_t max_bytes) {
  RequireRegularFile(path);
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw DataError(fmt::format("cannot open '{}': {}", path.string(), std::strerror(errno)));
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (text.size() > max_bytes) {
      throw DataError(
          fmt::format("'{}' is larger than the {} bytes allowed here", path.string(), max_bytes));
    }
  }
  return text;
}

}  // namespace teller
