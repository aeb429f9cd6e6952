#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/collect/log_stamp.h"
#include "src/core/secret_mask.h"

namespace teller::collect {

/// One line that a follower found, secrets masked, without its line end.
struct FollowedLine {
  int64_t read_ns;
  int64_t realtime_ns;
  uint64_t offset;  ///< of its first byte
  std::string text;
};

/// Follows one growing text file. It may appear late. Lines over kMaxLineBytes come in pieces of
/// that size. A line is stamped when it is read, or, where a relay wrote the file, when its last
/// byte came (log_stamp.h).
class LogFollower {
 public:
  static constexpr std::size_t kMaxLineBytes = 65536;

  struct Options {
    std::filesystem::path stamps;  ///< of the relay; empty: none
    bool from_end = false;         ///< what the file holds already is left out
  };

  explicit LogFollower(std::filesystem::path path) : path_(std::move(path)) {}
  LogFollower(std::filesystem::path path, const Options& options);
  ~LogFollower();
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  /// Appends whole lines that are new.
  void Poll(std::vector<FollowedLine>& lines);
  /// Appends what is left, also a last line without its end.
  void Finish(std::vector<FollowedLine>& lines);
  /// Device and inode of the open file; 0, 0 where there is none.
  std::pair<uint64_t, uint64_t> Identity() const { return {device_, inode_}; }

 private:
  bool Open();
  void ReadOn(std::vector<FollowedLine>& lines);
  /// Notices that the file was cut back or replaced; true: there is another to read.
  bool Rotate(std::vector<FollowedLine>& lines);
  void EndLastLine(std::vector<FollowedLine>& lines);
  void Split(std::vector<FollowedLine>& lines);
  void Emit(std::size_t begin, std::size_t end, std::vector<FollowedLine>& lines);
  /// When the byte at `offset` came.
  LogStamp StampOf(uint64_t offset);

  std::filesystem::path path_;
  int file_ = -1;
  ino_t inode_ = 0;
  dev_t device_ = 0;
  off_t read_bytes_ = 0;         ///< of the open file
  std::string pending_;          ///< bytes of a line whose end has not come
  uint64_t pending_offset_ = 0;  ///< of pending_[0]
  int stamp_file_ = -1;
  LogStamp stamp_{};  ///< the last one read
  SecretMasker masker_;
};

}  // namespace teller::collect
