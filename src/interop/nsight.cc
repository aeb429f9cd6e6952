#include "src/interop/nsight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/core/error.h"
#include "src/core/progress.h"
#include "src/interop/device_tracks.h"
#include "src/interop/event_class.h"
#include "src/interop/log_lines.h"
#include "src/interop/sqlite_reader.h"
#include "src/interop/text_cleaning.h"

namespace teller::interop {
namespace {

constexpr std::size_t kBatchRows = std::size_t{64} << 10;
constexpr std::size_t kMaxCommandBytes = 512;

// A global id holds, from the top, hardware (8 bits), virtual machine (8), process (24), thread
// (24).
constexpr int kThreadBits = 24;
constexpr int64_t kIdMask = (int64_t{1} << kThreadBits) - 1;
int64_t ProcessKey(int64_t global_id) { return global_id >> kThreadBits; }
uint32_t ProcessNumber(int64_t key) { return static_cast<uint32_t>(key & kIdMask); }
int64_t ThreadNumber(int64_t global_id) { return global_id & kIdMask; }

// Values of eventType in NVTX_EVENTS.
constexpr int64_t kNvtxMark = 34;
constexpr int64_t kNvtxPushPop = 59;
constexpr int64_t kNvtxStartEnd = 60;

/// A string of StringIds that events refer to.
struct SourceString {
  StringId id = kNoString;
  std::string text;
  trace::Kind api_kind{};
  trace::Kind comm_kind{};
  bool is_comm_kernel = false;
};

/// A process while its events are read.
struct Process {
  ImportedProcess imported;
  TrackNumbers tracks;
  trace::EventTable pending;
  int64_t first_device = std::numeric_limits<int64_t>::max();
  int64_t events = 0;
  bool has_comm_kernels = false;
};

/// A range that torch.autograd.profiler.emit_nvtx wrote: 'aten::mm, seq = 12, op_id = 34, sizes =
/// ...'.
std::string_view WithoutTorchSuffix(std::string_view name) {
  constexpr std::array<std::string_view, 4> kSuffixes = {
      ", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
  for (const std::string_view suffix : kSuffixes) name = name.substr(0, name.find(suffix));
  return name;
}

std::string_view CopyName(int64_t kind) {
  constexpr std::array<std::string_view, 13> kNames = {
      "Memcpy",      "Memcpy HtoD",     "Memcpy DtoH",    "Memcpy HtoA", "Memcpy AtoH",
      "Memcpy AtoA", "Memcpy AtoD",     "Memcpy DtoA",    "Memcpy DtoD", "Memcpy HtoH",
      "Memcpy PtoP", "Memcpy UVM HtoD", "Memcpy UVM DtoH"};
  return kind >= 0 && kind < static_cast<int64_t>(kNames.size())
             ? kNames[static_cast<std::size_t>(kind)]
             : kNames[0];
}

std::string_view SyncName(int64_t type) {
  constexpr std::array<std::string_view, 5> kNames = {
      "Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return type >= 0 && type < static_cast<int64_t>(kNames.size())
             ? kNames[static_cast<std::size_t>(type)]
             : kNames[0];
}

class NsightImport {
 public:
  NsightImport(const std::filesystem::path& path, const ImportOptions& options, TraceSink& sink,
               ImportLog& log)
      : path_(path), database_(path), options_(options), sink_(sink), log_(log) {}

  std::vector<ImportedProcess> Run();

 private:
  void ReadSession();
  void ReadHost();
  void ReadCommand();
  void ReadProcessNames();
  void ReadApiCalls(std::string_view table);
  void ReadKernels();
  void ReadDeviceRecords();
  template <typename Complete>
  void ReadDeviceTable(std::string_view table, const std::vector<std::string>& more_columns,
                       trace::Kind kind, Complete complete);
  void ReadLibraryCalls(std::string_view table);
  void ReadNvtx();
  void ReadNvtxRow(const SqliteRows& rows);
  void ReadStreams();
  void CountOtherTables();
  std::vector<ImportedProcess> Ranked();

  bool Begin(std::string_view table);
  Process& ProcessOf(int64_t key);
  Process* DeviceProcess(const SqliteRows& rows, int process_column, uint64_t correlation);
  bool SetTimes(const SqliteRows& rows, trace::Event& event, bool may_be_open);
  void SetStream(const SqliteRows& rows, int device_column, Process& process, trace::Event& event);
  void Add(Process& process, const trace::Event& event);
  const SourceString& StringOf(std::optional<int64_t> id);
  std::string Value(std::optional<int64_t> id) const;
  StringId Name(std::string_view text) { return sink_.Intern(CleanName(text, options_, log_)); }
  uint64_t Correlation(const SqliteRows& rows, int column) const;

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
  std::map<int64_t, Process> processes_;
  std::unordered_map<int64_t, SourceString> strings_;
  std::unordered_map<uint64_t, int64_t>
      launcher_;  ///< correlation -> process, where one process only has it
  std::vector<std::pair<int64_t, trace::Event>>
      open_ranges_;  ///< by process; they end with the session
  bool needs_launcher_ = false;
  int64_t event_tables_ = 0;
  Progress progress_{"reading the report", 0, "events"};
};

bool NsightImport::Begin(std::string_view table) {
  if (!database_.HasTable(table)) return false;
  log_.CountSource(table, database_.CountRows(table));
  ++event_tables_;
  return true;
}

void NsightImport::ReadSession() {
  bool has_start = false;
  if (database_.HasTable("TARGET_INFO_SESSION_START_TIME")) {
    SqliteRows rows =
        database_.Read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs", "systemClockNs"});
    if (rows.Next() && rows.Integer(0)) {
      // Newer exports keep the system clock's times; older ones count from the session's start.
      has_start =
          !__builtin_sub_overflow(*rows.Integer(0), rows.Integer(1).value_or(0), &shift_ns_);
    }
  }
  if (!has_start) {
    shift_ns_ = 0;
    log_.Count("no_session_start", 1, trace::Severity::kInfo, "files");
    log_.Note(
        fmt::format("{}: states no session start; its times cannot be related to other files'",
                    path_.string()));
  }
}

void NsightImport::ReadHost() {
  constexpr std::string_view kTable = "TARGET_INFO_SYSTEM_ENV";
  if (!database_.HasColumn(kTable, "name") || !database_.HasColumn(kTable, "value")) return;
  SqliteRows rows =
      database_.Read(kTable, {"value"}, "name = 'Hostname'");  // nothing else of this table is read
  if (rows.Next()) host_ = std::string(rows.Text(0).substr(0, 255));
}

void NsightImport::ReadCommand() {
  constexpr std::string_view kTable = "META_DATA_CAPTURE";
  if (!database_.HasColumn(kTable, "name") || !database_.HasColumn(kTable, "value")) return;
  SqliteRows rows = database_.Read(
      kTable, {"name", "value"},
      "name = 'PROCESS_0:COMMAND' OR name LIKE 'PROCESS\\_0:ARGUMENT\\_%' ESCAPE '\\'");
  while (rows.Next() && command_.size() < kMaxCommandBytes) {
    if (!command_.empty()) command_ += ' ';
    command_ += rows.Text(1);
  }
  command_ = CleanName(command_, options_, log_).substr(0, kMaxCommandBytes);
}

void NsightImport::ReadProcessNames() {
  if (!database_.HasTable("PROCESSES")) return;
  SqliteRows rows = database_.Read("PROCESSES", {"globalPid", "name"});
  while (rows.Next()) {
    if (const auto id = rows.Integer(0))
      process_names_[ProcessKey(*id)] = CleanName(rows.Text(1), options_, log_);
  }
}

Process& NsightImport::ProcessOf(int64_t key) {
  const auto found = processes_.find(key);
  if (found != processes_.end()) return found->second;
  constexpr std::size_t kMaxProcesses = 100'000;
  if (processes_.size() >= kMaxProcesses)
    throw DataError(fmt::format("{}: more than {} processes", path_.string(), kMaxProcesses));
  Process& process = processes_[key];
  process.imported.info = {.host = host_, .pid = ProcessNumber(key), .command = command_};
  if (const auto named = process_names_.find(key); named != process_names_.end()) {
    process.imported.info.comm = named->second;
  }
  process.imported.index = sink_.AddProcess(process.imported.info);
  return process;
}

/// The process of a device record: as stated, else the only one, else the one that launched it.
Process* NsightImport::DeviceProcess(const SqliteRows& rows, int process_column,
                                     uint64_t correlation) {
  if (const auto stated = rows.Integer(process_column)) return &ProcessOf(ProcessKey(*stated));
  if (processes_.size() == 1) return &processes_.begin()->second;
  const auto launched = launcher_.find(correlation);
  if (launched != launcher_.end() && launched->second >= 0) return &ProcessOf(launched->second);
  log_.Count("device_record_without_process", 1, trace::Severity::kError);
  return &ProcessOf(0);
}

std::string NsightImport::Value(std::optional<int64_t> id) const {
  if (!id || !database_.HasTable("StringIds")) return {};
  SqliteRows rows = database_.Read("StringIds", {"value"}, fmt::format("id = {}", *id));
  return rows.Next() ? std::string(rows.Text(0)) : std::string();
}

const SourceString& NsightImport::StringOf(std::optional<int64_t> id) {
  const auto [found, is_new] = strings_.try_emplace(id.value_or(-1));
  SourceString& string = found->second;
  if (!is_new) return string;
  string.text = Value(id);
  if (string.text.empty()) log_.Count("missing_string", 1, trace::Severity::kError, "strings");
  string.id = Name(string.text);
  string.api_kind = ApiKind(string.text);
  string.comm_kind = CommKind(string.text);
  string.is_comm_kernel = IsCommKernel(string.text);
  return string;
}

uint64_t NsightImport::Correlation(const SqliteRows& rows, int column) const {
  return static_cast<uint64_t>(std::max<int64_t>(0, rows.Integer(column).value_or(0)));
}

/// Columns 0 and 1 are begin and end.
bool NsightImport::SetTimes(const SqliteRows& rows, trace::Event& event, bool may_be_open) {
  const auto begin = rows.Integer(0);
  const auto end = rows.Integer(1);
  if (!begin || (!end && !(may_be_open && rows.IsNull(1)))) {
    log_.Count("bad_time", 1, trace::Severity::kError);
    return false;
  }
  const bool no_timing = *begin == 0 && end == 0;
  bool overflow = __builtin_add_overflow(*begin, no_timing ? 0 : shift_ns_, &event.begin_ns);
  overflow = overflow ||
             __builtin_add_overflow(end.value_or(*begin), no_timing ? 0 : shift_ns_, &event.end_ns);
  if (overflow) {
    log_.Count("time_out_of_range", 1, trace::Severity::kError);
    return false;
  }
  if (no_timing) {
    event.flags |= trace::kFlagNoTiming;
    log_.Count("no_timing");
  } else if (!end) {
    event.flags |= trace::kFlagOpen;
  } else if (event.end_ns < event.begin_ns) {
    log_.Count("negative_duration_as_zero", 1, trace::Severity::kError);
    event.end_ns = event.begin_ns;
  }
  if (!no_timing) last_ns_ = std::max(last_ns_, event.end_ns);
  return true;
}

void NsightImport::SetStream(const SqliteRows& rows, int device_column, Process& process,
                             trace::Event& event) {
  const int64_t device = std::max<int64_t>(0, rows.Integer(device_column).value_or(0));
  event.flags |= trace::kFlagOnDevice;
  event.track = process.tracks.Stream(device, rows.Integer(device_column + 1).value_or(0));
  process.first_device = std::min(process.first_device, device);
}

void NsightImport::Add(Process& process, const trace::Event& event) {
  ++process.events;
  process.pending.Append(event);
  if (process.pending.size() < kBatchRows) return;
  progress_.Add(kBatchRows);
  sink_.Append(process.imported.index, process.pending);
  process.pending.Clear();
}

void NsightImport::ReadApiCalls(std::string_view table) {
  if (!Begin(table)) return;
  SqliteRows rows = database_.Read(table, {"start", "end", "globalTid", "nameId", "correlationId"});
  while (rows.Next()) {
    trace::Event event{.layer = trace::Layer::kHostApi, .source = trace::Source::kImport};
    if (!SetTimes(rows, event, false)) continue;
    const int64_t thread = rows.Integer(2).value_or(0);
    Process& process = ProcessOf(ProcessKey(thread));
    const SourceString& name = StringOf(rows.Integer(3));
    event.name = name.id;
    event.kind = name.api_kind;
    event.track = process.tracks.Thread(ThreadNumber(thread));
    event.correlation = Correlation(rows, 4);
    if (needs_launcher_ && event.correlation != 0) {
      const auto [known, is_new] = launcher_.emplace(event.correlation, ProcessKey(thread));
      if (!is_new && known->second != ProcessKey(thread)) known->second = -1;
    }
    Add(process, event);
  }
}

/// Reads a table of device records; `complete(rows, event, process)` sets what the kind of record
/// has of its own, from column 7 on.
template <typename Complete>
void NsightImport::ReadDeviceTable(std::string_view table,
                                   const std::vector<std::string>& more_columns, trace::Kind kind,
                                   Complete complete) {
  if (!Begin(table)) return;
  std::vector<std::string> columns = {"start",     "end",           "deviceId",   "streamId",
                                      "globalPid", "correlationId", "graphNodeId"};
  columns.insert(columns.end(), more_columns.begin(), more_columns.end());
  SqliteRows rows = database_.Read(table, columns);
  while (rows.Next()) {
    trace::Event event{
        .layer = trace::Layer::kDevice, .kind = kind, .source = trace::Source::kImport};
    if (!SetTimes(rows, event, false)) continue;
    event.correlation = Correlation(rows, 5);
    event.graph_node = Correlation(rows, 6);
    Process& process = *DeviceProcess(rows, 4, event.correlation);
    SetStream(rows, 2, process, event);
    complete(rows, event, process);
    Add(process, event);
  }
}

void NsightImport::ReadKernels() {
  const auto complete = [this](const SqliteRows& rows, trace::Event& event, Process& process) {
    const SourceString& name = StringOf(rows.Integer(7) ? rows.Integer(7) : rows.Integer(8));
    event.name = name.id;
    if (!name.is_comm_kernel) return;
    event.layer = trace::Layer::kComm;
    event.kind = name.comm_kind;
    process.has_comm_kernels = true;
  };
  ReadDeviceTable("CUPTI_ACTIVITY_KIND_KERNEL", {"demangledName", "shortName"},
                  trace::Kind::kKernel, complete);
}

void NsightImport::ReadDeviceRecords() {
  ReadDeviceTable("CUPTI_ACTIVITY_KIND_MEMCPY", {"copyKind", "bytes"}, trace::Kind::kMemcpy,
                  [this](const SqliteRows& rows, trace::Event& event, Process&) {
                    event.name = Name(CopyName(rows.Integer(7).value_or(0)));
                    event.bytes = rows.Integer(8).value_or(-1);
                  });
  ReadDeviceTable("CUPTI_ACTIVITY_KIND_MEMSET", {"bytes"}, trace::Kind::kMemset,
                  [this](const SqliteRows& rows, trace::Event& event, Process&) {
                    event.name = Name("Memset");
                    event.bytes = rows.Integer(7).value_or(-1);
                  });
  ReadDeviceTable("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"syncType"}, trace::Kind::kSync,
                  [this](const SqliteRows& rows, trace::Event& event, Process&) {
                    event.name = Name(SyncName(rows.Integer(7).value_or(0)));
                  });
  ReadDeviceTable(
      "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {}, trace::Kind::kGraph,
      [this](const SqliteRows&, trace::Event& event, Process&) { event.name = Name("Graph"); });
}

void NsightImport::ReadLibraryCalls(std::string_view table) {
  if (!Begin(table)) return;
  SqliteRows rows = database_.Read(table, {"start", "end", "globalTid", "nameId"});
  while (rows.Next()) {
    trace::Event event{.layer = trace::Layer::kHostApi,
                       .kind = trace::Kind::kApiOther,
                       .source = trace::Source::kImport};
    if (!SetTimes(rows, event, false)) continue;
    const int64_t thread = rows.Integer(2).value_or(0);
    Process& process = ProcessOf(ProcessKey(thread));
    event.name = StringOf(rows.Integer(3)).id;
    event.track = process.tracks.Thread(ThreadNumber(thread));
    Add(process, event);
  }
}

void ClassifyRange(std::string_view name, bool has_torch_suffix, const Process& process,
                   trace::Event& event) {
  const bool is_operator =
      has_torch_suffix || name.starts_with("aten::") || name.starts_with("torch::");
  if (IsCommRange(name)) {
    event.layer = trace::Layer::kComm;
    event.kind = CommKind(name);
    // The range is the call that enqueues; where the process has kernels of NCCL, they are the
    // transfer.
    if (process.has_comm_kernels) event.flags |= trace::kFlagJoined;
  } else if (name.starts_with("nccl")) {
    event.layer = trace::Layer::kHostApi;
    event.kind = trace::Kind::kApiOther;
  } else if (is_operator) {
    event.layer = trace::Layer::kBackend;
    event.kind = trace::Kind::kOperator;
  }
}

void NsightImport::ReadNvtx() {
  constexpr std::string_view kTable = "NVTX_EVENTS";
  if (!Begin(kTable)) return;
  SqliteRows rows = database_.Read(
      kTable, {"start", "end", "globalTid", "endGlobalTid", "eventType", "text", "textId"});
  while (rows.Next()) ReadNvtxRow(rows);
  log_.Count("open_ended", static_cast<int64_t>(open_ranges_.size()));
  for (auto& [key, event] : open_ranges_) {
    event.end_ns = std::max(event.begin_ns, last_ns_);
    Add(ProcessOf(key), event);
  }
}

void NsightImport::ReadNvtxRow(const SqliteRows& rows) {
  const int64_t type = rows.Integer(4).value_or(kNvtxPushPop);
  if (type != kNvtxPushPop && type != kNvtxStartEnd && type != kNvtxMark) {
    return log_.Count("skipped_nvtx_record");  // names of domains, categories and threads
  }
  trace::Event event{.source = trace::Source::kImport};
  if (!SetTimes(rows, event, true)) return;
  const int64_t thread = rows.Integer(2).value_or(0);
  Process& process = ProcessOf(ProcessKey(thread));
  // A registered string stands in StringIds.
  const std::string_view text =
      rows.IsNull(5) ? std::string_view(StringOf(rows.Integer(6)).text) : rows.Text(5);
  const std::string_view name = WithoutTorchSuffix(text);
  event.name = Name(name);
  event.track = process.tracks.Thread(ThreadNumber(thread));
  if (type == kNvtxMark) {
    event.kind = trace::Kind::kMark;
    event.flags &= static_cast<uint16_t>(~trace::kFlagOpen);
  } else {
    event.kind = type == kNvtxStartEnd ? trace::Kind::kStartEnd : trace::Kind::kRange;
    ClassifyRange(name, name.size() != text.size(), process, event);
  }
  if (rows.Integer(3) && *rows.Integer(3) != thread) event.flags |= trace::kFlagOtherThreadEnd;
  if ((event.flags & trace::kFlagOpen) != 0) {
    open_ranges_.emplace_back(ProcessKey(thread), event);
  } else {
    Add(process, event);
  }
}

/// What the processes wrote to stdout and stderr during the capture.
void NsightImport::ReadStreams() {
  if (!database_.HasTable("ProcessStreams") || !database_.HasTable("StringIds")) return;
  SqliteRows rows = database_.Read("ProcessStreams", {"globalPid", "filenameId", "contentId"});
  while (rows.Next()) {
    const std::string file = Value(rows.Integer(1));
    const std::string content = Value(rows.Integer(2));
    if (content.empty()) continue;
    const auto process = processes_.find(ProcessKey(rows.Integer(0).value_or(0)));
    const int index = process == processes_.end() ? -1 : process->second.imported.index;
    LogLines lines(std::filesystem::path(file).filename().string(), index, options_, sink_, log_);
    lines.Add(content);
    lines.Finish();
  }
}

void NsightImport::CountOtherTables() {
  constexpr std::array<std::string_view, 6> kSkipped = {"CUPTI_ACTIVITY_KIND_OVERHEAD",
                                                        "PROFILER_OVERHEAD",
                                                        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                                        "OSRT_API",
                                                        "DIAGNOSTIC_EVENT",
                                                        "GPU_METRICS"};
  for (const std::string_view table : kSkipped) {
    if (!database_.HasTable(table)) continue;
    const int64_t count = database_.CountRows(table);
    log_.CountSource(table, count);
    log_.Count(fmt::format("skipped_table_{}", table), count);
  }
}

std::vector<ImportedProcess> NsightImport::Run() {
  ReadSession();
  ReadHost();
  ReadCommand();
  ReadProcessNames();
  for (const char* table :
       {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}) {
    needs_launcher_ =
        needs_launcher_ || (database_.HasTable(table) && !database_.HasColumn(table, "globalPid"));
  }
  ReadApiCalls("CUPTI_ACTIVITY_KIND_RUNTIME");
  ReadApiCalls("CUPTI_ACTIVITY_KIND_DRIVER");
  ReadKernels();
  ReadDeviceRecords();
  ReadLibraryCalls("CUBLAS_EVENTS");
  ReadLibraryCalls("CUDNN_EVENTS");
  ReadNvtx();
  ReadStreams();
  CountOtherTables();
  if (event_tables_ == 0) {
    throw DataError(fmt::format(
        "cannot import {}: a SQLite database without any table of Nsight Systems events; export "
        "the report with 'nsys export --type sqlite'",
        path_.string()));
  }
  return Ranked();
}

/// Ends the processes; answers those that may be ranks.
std::vector<ImportedProcess> NsightImport::Ranked() {
  const bool any_device = std::any_of(processes_.begin(), processes_.end(), [](const auto& entry) {
    return entry.second.first_device != std::numeric_limits<int64_t>::max();
  });
  std::vector<std::pair<int64_t, ImportedProcess>> ranked;
  for (auto& [key, process] : processes_) {
    if (process.pending.size() > 0) sink_.Append(process.imported.index, process.pending);
    const bool has_device = process.first_device != std::numeric_limits<int64_t>::max();
    if (process.events > 0 && has_device == any_device)
      ranked.emplace_back(process.first_device, process.imported);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ImportedProcess> answer;
  for (const auto& [device, imported] : ranked) answer.push_back(imported);
  return answer;
}

}  // namespace

std::vector<ImportedProcess> ImportNsight(const std::filesystem::path& path,
                                          const ImportOptions& options, TraceSink& sink,
                                          ImportLog& log) {
  return NsightImport(path, options, sink, log).Run();
}

}  // namespace teller::interop
