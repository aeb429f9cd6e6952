#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace teller::collect {

/// What a target gets as its stdout and stderr: pipes, or terminals where ours are terminals.
struct RelayPipes {
  int stdout_write = -1;
  int stderr_write = -1;
};

/// Files that a relay writes of one stream: a copy, and when each piece of it came (log_stamp.h).
struct RelayCopy {
  /// Those of the stream "stdout" or "stderr" in a spool folder.
  static RelayCopy In(const std::filesystem::path& spool_dir, const std::string& stream) {
    return {spool_dir / (stream + ".log"), spool_dir / (stream + ".stamps")};
  }

  std::filesystem::path text;
  std::filesystem::path stamps;
};

/// A small process between the target and our own stdout and stderr: it passes bytes on as they
/// come and writes a copy of each stream into a file, which a LogFollower reads. It is a process of
/// its own, deaf to signals, and ends when the target's ends are closed, so a collector that is
/// killed neither blocks the target nor ends it by SIGPIPE.
class Relay {
 public:
  /// Throws DeviceError.
  Relay(const RelayCopy& stdout_copy, const RelayCopy& stderr_copy);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const RelayPipes& pipes() const { return pipes_; }
  /// Call once the target has them: the relay ends when all others have closed theirs too.
  void ClosePipes();
  /// Waits until everything is passed on, at most `timeout_ns` (a daemon may hold the pipes for
  /// ever). True: it ended.
  bool WaitEnd(int64_t timeout_ns);
  /// Bytes that were passed on but not copied, since the disk was full.
  uint64_t lost_bytes() const;

 private:
  RelayPipes pipes_;
  pid_t pid_ = -1;
  std::atomic<uint64_t>* lost_bytes_ = nullptr;  ///< shared with the process
};

}  // namespace teller::collect
