#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/progress.h"

namespace teller::interop {

/// Bytes of one input from begin to end.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Up to `size` bytes; 0 at the end. Throws DataError on what looks like a decompression bomb.
  virtual std::size_t Read(char* out, std::size_t size) = 0;
  /// Why the stream ended before its time ('truncated gzip input'); empty where it did not.
  virtual std::string cut_reason() const { return {}; }
};

/// A stream over text in memory.
class TextStream final : public ByteStream {
 public:
  explicit TextStream(std::string_view text) : text_(text) {}
  std::size_t Read(char* out, std::size_t size) override;

 private:
  std::string_view text_;
};

/// A stream whose first bytes can be looked at before they are read.
class PeekableStream final : public ByteStream {
 public:
  explicit PeekableStream(ByteStream& in) : in_(&in) {}
  /// The next bytes, at least `size` of them unless the stream ends before.
  std::string_view Peek(std::size_t size);
  std::size_t Read(char* out, std::size_t size) override;
  std::string cut_reason() const override { return in_->cut_reason(); }

 private:
  ByteStream* in_;
  std::string ahead_;
  std::size_t taken_ = 0;
};

/// The members of a file: itself where it is plain, what it expands to where it is compressed
/// (gzip, xz, zstd), the regular files inside where it is a tar, compressed or not.
class ArchiveReader {
 public:
  /// Throws DataError when the file cannot be opened.
  /// @param progress  told of the file's bytes as they are read; may be null, must outlive the
  /// reader
  explicit ArchiveReader(const std::filesystem::path& path, Progress* progress = nullptr);
  /// Reads what another stream holds, for compressed members of a tar. `in` must outlive the
  /// reader.
  ArchiveReader(ByteStream& in, std::string name);
  ~ArchiveReader();

  /// Moves to the next regular member; false at the end.
  bool Next();
  const std::string& name() const;  ///< of the member; the file's own name where it is no archive
  ByteStream& stream();
  bool is_archive() const;  ///< a tar, not a lone file
  bool is_compressed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The regular files of `path` in the order of their names, numbers in names compared as numbers:
/// itself, or all below it where it is a folder (hidden files and links left out). Throws DataError
/// where it does not exist or holds more than 10,000 files.
std::vector<std::filesystem::path> ListInputFiles(const std::filesystem::path& path);

/// Whether `left` comes before `right` when runs of digits count as numbers ('rank-2' < 'rank-10').
bool NaturalLess(std::string_view left, std::string_view right);

}  // namespace teller::interop
