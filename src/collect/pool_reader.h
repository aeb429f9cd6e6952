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
  /// What KeepIn wrote of a pool that is no longer there. Throws DataError.
  static std::unique_ptr<PoolReader> OpenKept(const std::filesystem::path& path);
  ~PoolReader();
  PoolReader(const PoolReader&) = delete;
  PoolReader& operator=(const PoolReader&) = delete;

  /// False while the agent is still making the file.
  static bool IsReady(const std::filesystem::path& path);

  enum class Depth { kFullSegments, kEverything };
  /// Moves new records into the sink, and new names and clock triples into this object.
  /// kFullSegments leaves alone what threads are still writing. Answers the number of records.
  std::size_t Drain(Depth depth, RecordSink& sink);

  /// For the successor of a reader that was killed: its clock triples, and the last records that it
  /// gave to its sink. Those that it had not marked as consumed yet are not given again.
  void GoOn(std::vector<TellerClockTriple> clock, std::span<const TellerRecord> last_records);

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
  /// Counts records that were taken but could not be kept; a successor finds the count.
  void CountSpoolFull(uint64_t records);
  uint64_t attach_ns(TellerSource source) const;
  uint64_t cupti_overhead_ns() const;
  uint32_t sources_attached() const;
  /// False where the process stamps with CLOCK_MONOTONIC.
  bool has_invariant_tsc() const { return header_->ticks_per_second != 0; }
  /// True where the process is certainly gone: same pid namespace as ours, and no such pid.
  bool ProcessIsGone() const;
  /// Writes the header and the names into `file`. Throws DeviceError.
  void KeepIn(const std::filesystem::path& file) const;
  /// Keeps a copy of the header and gives the pool's memory and file back; nothing can be drained
  /// afterwards.
  void Retire();
  bool is_attached() const { return memory_ != nullptr; }

 private:
  PoolReader() = default;
  void TakeNames(const char* table, uint32_t bytes);
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
