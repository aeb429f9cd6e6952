#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/abi/pool.h"
#include "src/trace/event.h"

namespace teller::collect {

/// Takes what it is given; the records stay valid during the call only.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void Take(std::span<const TellerRecord> records) = 0;
};

/// The reading end of one process's pool. What the process wrote is not trusted: sizes and indices
/// are checked. The file outlives a killed writer, so nothing that was written is lost.
class PoolReader {
 public:
  /// Throws DataError when the file is not a pool of our version, or not ready yet (see IsReady).
  explicit PoolReader(const std::filesystem::path& path);
  ~PoolReader();
  PoolReader(const PoolReader&) = delete;
  PoolReader& operator=(const PoolReader&) = delete;

  /// False while the agent is still making the file.
  static bool IsReady(const std::filesystem::path& path);

  enum class Depth { kFullSegments, kEverything };
  /// Moves new records into the sink, and new names and clock triples into this object.
  /// kFullSegments leaves alone what threads are still writing. Answers the number of records.
  std::size_t Drain(Depth depth, RecordSink& sink);

  const std::filesystem::path& path() const { return path_; }
  /// Names by their number in the process; grows with Drain.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<TellerClockTriple>& clock() const { return clock_; }
  /// Clock triples that were overwritten before they were read.
  uint64_t clock_lost() const { return clock_lost_; }
  /// As the process states it now; a rank may be learned late.
  trace::ProcessInfo Info() const;
  std::string Note() const;
  uint64_t dropped(TellerDropReason reason) const;
  uint64_t attach_ns(TellerSource source) const;
  uint64_t cupti_overhead_ns() const;
  uint32_t sources_attached() const;
  /// True where the process is certainly gone: same pid namespace as ours, and no such pid.
  bool ProcessIsGone() const;
  /// Keeps a copy of the header and gives the pool's memory and file back; nothing can be drained
  /// afterwards.
  void Retire();
  bool is_attached() const { return memory_ != nullptr; }

 private:
  void DrainNames();
  void DrainClock();
  std::size_t DrainSegment(TellerSegment& segment, Depth depth, RecordSink& sink);

  std::filesystem::path path_;
  char* memory_ = nullptr;              ///< null once retired
  TellerPoolHeader* header_ = nullptr;  ///< in memory_, later kept_header_
  std::unique_ptr<TellerPoolHeader> kept_header_;
  std::vector<std::string> names_;
  uint32_t name_bytes_read_ = 0;
  std::vector<TellerClockTriple> clock_;
  uint32_t clock_read_ = 0;
  uint64_t clock_lost_ = 0;
};

}  // namespace teller::collect
