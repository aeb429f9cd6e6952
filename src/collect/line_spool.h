#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace teller::collect {

/// A line of a followed file, with the file and node it came from.
struct SpooledLine {
  int64_t read_ns = 0;
  int64_t realtime_ns = 0;
  uint64_t offset = 0;  ///< of its first byte
  std::string node;     ///< empty: not known
  std::string file;
  std::string text;  ///< secrets masked, without its line end
};

/// Log lines on disk, for the time until they are written into the trace file. One thread owns it.
class LineSpool {
 public:
  /// Goes on behind the lines of a file that is there.
  explicit LineSpool(std::filesystem::path path);
  ~LineSpool();
  LineSpool(const LineSpool&) = delete;
  LineSpool& operator=(const LineSpool&) = delete;

  /// Never throws: where the disk is full, lines are lost and counted.
  void Append(const std::vector<SpooledLine>& lines);
  uint64_t bytes() const { return bytes_; }
  uint64_t lost() const { return lost_; }

  /// All lines in order, a block at a time. Stops at what is not whole.
  void ForEachBlock(const std::function<void(const std::vector<SpooledLine>&)>& visit) const;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace teller::collect
