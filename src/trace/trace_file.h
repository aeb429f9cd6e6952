#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/trace/event.h"

namespace teller::trace {

/// Writes trace.h5 (docs/schema/trace.md). A deflated chunk is written once and whole, tails wait
/// in memory until Close, so a killed writer leaves a file whose flushed values are right. One
/// thread owns a writer.
class TraceWriter {
 public:
  /// `path` must not exist (see core/atomic_file.h for beside-and-rename). Throws DeviceError on no
  /// space.
  TraceWriter(const std::filesystem::path& path, const TraceMeta& meta);
  ~TraceWriter();  ///< closes without the `complete` attribute when Close was not called

  /// Adds a process group; answers its index.
  int AddProcess(const ProcessInfo& info);
  /// Rewrites what is known of a process (rank or name learned later).
  void UpdateProcess(int process, const ProcessInfo& info);
  StringId Intern(std::string_view text);
  /// Ids in `events` come from Intern.
  void Append(int process, const EventTable& events);
  void AppendLogs(const std::vector<LogLine>& lines);
  void AppendClock(const std::vector<ClockTriple>& triples);
  void AppendProbes(const std::vector<ClockProbe>& probes);
  void SetStats(const std::vector<Stat>& stats);
  void SetRunId(const std::string& run_id);
  /// Writes whole chunks and H5Fflush; cheap when nothing is due. Call every 0.5 s.
  void Flush();
  /// Tails, strings, stats, the `complete` attribute. Throws DeviceError.
  void Close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads trace.h5. Throws DataError, one line, on a file that is missing, foreign, truncated or of
/// another major version. Memory is bounded by what is asked for: one process at a time.
class TraceReader {
 public:
  explicit TraceReader(const std::filesystem::path& path);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;

  bool complete() const;  ///< false where the writer was killed
  const TraceMeta& meta() const;
  const StringInterner& strings() const;
  const std::vector<ProcessInfo>& processes() const;
  EventTable ReadEvents(int process) const;
  std::vector<LogLine> ReadLogs() const;
  std::vector<ClockTriple> ReadClock() const;
  std::vector<ClockProbe> ReadProbes() const;
  std::vector<Stat> ReadStats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::trace
