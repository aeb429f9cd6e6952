#include "src/interop/nsight_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/core/error.h"
#include "src/interop/event_class.h"
#include "src/interop/text_cleaning.h"

namespace teller::interop {
namespace {

constexpr std::size_t kBatchRows = std::size_t{64} << 10;
constexpr std::size_t kMaxCommandBytes = 512;

}  // namespace

NsightReport::NsightReport(const std::filesystem::path& path, const ImportOptions& options,
                           TraceSink& sink, ImportLog& log)
    : path_(path), database_(path), options_(options), sink_(sink), log_(log) {
  ReadSession();
  ReadHost();
  ReadCommand();
  ReadProcessNames();
  needs_launcher_ = DeviceTablesLackProcess();
}

bool NsightReport::DeviceTablesLackProcess() const {
  constexpr std::string_view kTables[] = {
      "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"};
  return std::any_of(std::begin(kTables), std::end(kTables), [this](std::string_view table) {
    return database_.HasTable(table) && !database_.HasColumn(table, "globalPid");
  });
}

void NsightReport::RememberLauncher(uint64_t correlation, int64_t process_key) {
  if (!needs_launcher_ || correlation == 0) return;
  const auto [known, is_new] = launcher_.emplace(correlation, process_key);
  if (!is_new && known->second != process_key) known->second = -1;
}

void NsightReport::Finish() {
  for (auto& [key, process] : processes_) {
    if (process.pending.size() > 0) sink_.Append(process.imported.index, process.pending);
  }
}

StringId NsightReport::Name(std::string_view text) {
  return sink_.Intern(CleanName(text, options_, log_));
}

bool NsightReport::Begin(std::string_view table) {
  if (!database_.HasTable(table)) return false;
  log_.CountSource(table, database_.CountRows(table));
  ++event_tables_;
  return true;
}

void NsightReport::ReadSession() {
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

void NsightReport::ReadHost() {
  constexpr std::string_view kTable = "TARGET_INFO_SYSTEM_ENV";
  if (!database_.HasColumn(kTable, "name") || !database_.HasColumn(kTable, "value")) return;
  SqliteRows rows =
      database_.Read(kTable, {"value"}, "name = 'Hostname'");  // nothing else of this table is read
  if (rows.Next()) host_ = std::string(rows.Text(0).substr(0, 255));
}

void NsightReport::ReadCommand() {
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

void NsightReport::ReadProcessNames() {
  if (!database_.HasTable("PROCESSES")) return;
  SqliteRows rows = database_.Read("PROCESSES", {"globalPid", "name"});
  while (rows.Next()) {
    if (const auto id = rows.Integer(0))
      process_names_[ProcessKey(*id)] = CleanName(rows.Text(1), options_, log_);
  }
}

NsightProcess& NsightReport::ProcessOf(int64_t key) {
  const auto found = processes_.find(key);
  if (found != processes_.end()) return found->second;
  constexpr std::size_t kMaxProcesses = 100'000;
  if (processes_.size() >= kMaxProcesses)
    throw DataError(fmt::format("{}: more than {} processes", path_.string(), kMaxProcesses));
  NsightProcess& process = processes_[key];
  process.imported.info = {
      .host = host_, .pid = static_cast<uint32_t>(key & kNsightIdMask), .command = command_};
  if (const auto named = process_names_.find(key); named != process_names_.end()) {
    process.imported.info.comm = named->second;
  }
  process.imported.index = sink_.AddProcess(process.imported.info);
  return process;
}

NsightProcess& NsightReport::DeviceProcess(const SqliteRows& rows, int process_column,
                                           uint64_t correlation) {
  if (const auto stated = rows.Integer(process_column)) return ProcessOf(ProcessKey(*stated));
  if (processes_.size() == 1) return processes_.begin()->second;
  const auto launched = launcher_.find(correlation);
  if (launched != launcher_.end() && launched->second >= 0) return ProcessOf(launched->second);
  log_.Count("device_record_without_process", 1, trace::Severity::kError);
  return ProcessOf(0);
}

std::string NsightReport::Value(std::optional<int64_t> id) const {
  if (!id || !database_.HasTable("StringIds")) return {};
  SqliteRows rows = database_.Read("StringIds", {"value"}, fmt::format("id = {}", *id));
  return rows.Next() ? std::string(rows.Text(0)) : std::string();
}

const NsightString& NsightReport::StringOf(std::optional<int64_t> id) {
  const auto [found, is_new] = strings_.try_emplace(id.value_or(-1));
  NsightString& string = found->second;
  if (!is_new) return string;
  string.text = Value(id);
  if (string.text.empty()) log_.Count("missing_string", 1, trace::Severity::kError, "strings");
  string.id = Name(string.text);
  string.api_kind = ApiKind(string.text);
  string.comm_kind = CommKind(string.text);
  string.is_comm_kernel = IsCommKernel(string.text);
  return string;
}

uint64_t NsightReport::Correlation(const SqliteRows& rows, int column) {
  return static_cast<uint64_t>(std::max<int64_t>(0, rows.Integer(column).value_or(0)));
}

bool NsightReport::SetTimes(const SqliteRows& rows, trace::Event& event, bool may_be_open) {
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

void NsightReport::SetStream(const SqliteRows& rows, int device_column, NsightProcess& process,
                             trace::Event& event) {
  const int64_t device = std::max<int64_t>(0, rows.Integer(device_column).value_or(0));
  event.flags |= trace::kFlagOnDevice;
  event.track = process.tracks.Stream(device, rows.Integer(device_column + 1).value_or(0));
  process.first_device = std::min(process.first_device, device);
}

void NsightReport::Add(NsightProcess& process, const trace::Event& event) {
  ++process.events;
  process.pending.Append(event);
  if (process.pending.size() < kBatchRows) return;
  progress_.Add(kBatchRows);
  sink_.Append(process.imported.index, process.pending);
  process.pending.Clear();
}

}  // namespace teller::interop
