#pragma once

#include <filesystem>
#include <string_view>

namespace teller {

/// A file that is written beside its destination and renamed when whole: nothing half-written is
/// ever seen. Without Commit the temporary file is removed.
class AtomicFile {
 public:
  /// Throws ConfigError when `destination` exists and `force` is false, or when its folder cannot
  /// be written.
  explicit AtomicFile(std::filesystem::path destination, bool force = false);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Where to write: in the destination's folder, named '.NAME.PID.partial'.
  const std::filesystem::path& path() const { return temporary_; }
  /// Flushes to disk and renames. Throws DeviceError (no space, for example).
  void Commit();

 private:
  std::filesystem::path destination_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Writes `text` as a whole file, renamed into place. Throws as AtomicFile does.
void WriteFileAtomically(const std::filesystem::path& destination, std::string_view text,
                         bool force = false);

/// Throws DataError unless `path` is a regular file, or leads to one: a FIFO without a writer would
/// be waited for without end.
void RequireRegularFile(const std::filesystem::path& path);

/// The whole text of a regular file of at most `max_bytes`. Throws DataError: absent, unreadable,
/// too large.
std::string ReadFile(const std::filesystem::path& path,
                     std::size_t max_bytes = std::size_t{1} << 30);

}  // namespace teller
