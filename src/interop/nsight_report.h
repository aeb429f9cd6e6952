#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/progress.h"
#include "src/interop/device_tracks.h"
#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/sqlite_reader.h"
#include "src/interop/trace_sink.h"
#include "src/trace/event.h"

namespace teller::interop {

// A global id holds, from the top, hardware (8 bits), virtual machine (8), process (24), thread
// (24).
inline constexpr int kNsightThreadBits = 24;
inline constexpr int64_t kNsightIdMask = (int64_t{1} << kNsightThreadBits) - 1;
inline int64_t ProcessKey(int64_t global_id) { return global_id >> kNsightThreadBits; }
inline int64_t ThreadNumber(int64_t global_id) { return global_id & kNsightIdMask; }

/// A string of StringIds that events refer to.
struct NsightString {
  StringId id = kNoString;
  std::string text;
  trace::Kind api_kind{};
  trace::Kind comm_kind{};
  bool is_comm_kernel = false;
};

/// A process while its events are read.
struct NsightProcess {
  ImportedProcess imported;
  TrackNumbers tracks;
  trace::EventTable pending;
  int64_t first_device = std::numeric_limits<int64_t>::max();
  int64_t events = 0;
  bool has_comm_kernels = false;
};

/// A report of Nsight Systems while its tables are read: its session, its strings, its processes
/// and where their events go.
class NsightReport {
 public:
  /// Reads the session, the host, the command line and the names of processes.
  /// Throws DataError where the file is no database or is damaged.
  NsightReport(const std::filesystem::path& path, const ImportOptions& options, TraceSink& sink,
               ImportLog& log);

  const SqliteReader& database() const { return database_; }
  const std::filesystem::path& path() const { return path_; }
  const ImportOptions& options() const { return options_; }
  TraceSink& sink() { return sink_; }
  ImportLog& log() { return log_; }
  std::map<int64_t, NsightProcess>& processes() { return processes_; }
  /// Tables of events that Begin found.
  int64_t event_tables() const { return event_tables_; }
  /// The latest end so far.
  int64_t last_ns() const { return last_ns_; }

  /// Counts a table of events; false where the report has none of this name.
  bool Begin(std::string_view table);
  NsightProcess& ProcessOf(int64_t key);
  /// The process of a device record: as stated, else the only one, else the one that launched it.
  NsightProcess& DeviceProcess(const SqliteRows& rows, int process_column, uint64_t correlation);
  /// Remembers who launched, where device records do not state their process.
  void RememberLauncher(uint64_t correlation, int64_t process_key);
  /// Columns 0 and 1 are begin and end. False, and counted, where they cannot be used.
  bool SetTimes(const SqliteRows& rows, trace::Event& event, bool may_be_open);
  /// The stream stands in the column after the device's.
  void SetStream(const SqliteRows& rows, int device_column, NsightProcess& process,
                 trace::Event& event);
  void Add(NsightProcess& process, const trace::Event& event);
  /// Gives the events that are still held back to the sink.
  void Finish();

  const NsightString& StringOf(std::optional<int64_t> id);
  /// A value of StringIds, uncleaned; empty where there is none.
  std::string Value(std::optional<int64_t> id) const;
  StringId Name(std::string_view text);
  static uint64_t Correlation(const SqliteRows& rows, int column);

 private:
  void ReadSession();
  void ReadHost();
  void ReadCommand();
  void ReadProcessNames();
  bool DeviceTablesLackProcess() const;

  std::filesystem::path path_;
  SqliteReader database_;
  const ImportOptions& options_;
  TraceSink& sink_;
  ImportLog& log_;
  int64_t shift_ns_ = 0;
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
  std::string host_;
  std::string command_;
  std::map<int64_t, std::string> process_names_;
  std::map<int64_t, NsightProcess> processes_;
  std::unordered_map<int64_t, NsightString> strings_;
  std::unordered_map<uint64_t, int64_t>
      launcher_;  ///< correlation -> process, where one process only has it
  bool needs_launcher_ = false;
  int64_t event_tables_ = 0;
  Progress progress_{"reading the report", 0, "events"};
};

}  // namespace teller::interop
