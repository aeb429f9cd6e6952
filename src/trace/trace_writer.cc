#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "src/core/error.h"
#include "src/h5/file.h"
#include "src/trace/trace_file.h"
#include "src/trace/trace_schema.h"

namespace teller::trace {
namespace {

constexpr h5::ColumnOptions kDeflated{.chunk_rows = kEventChunkRows, .deflate = 1};
constexpr h5::ColumnOptions kPlain{.chunk_rows = kSmallChunkRows, .deflate = 0};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the valid UTF-8 sequence at the front of `text`; 0 where there is none or it is a NUL.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continued = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  if (byte(0) == 0) return 0;
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0) return continued(1) ? 2 : 0;
  if (byte(0) >= 0xe0 && byte(0) < 0xf0) {
    if (!continued(1) || !continued(2)) return 0;
    const bool overlong = byte(0) == 0xe0 && byte(1) < 0xa0,
               surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (byte(0) >= 0xf0 && byte(0) < 0xf5) {
    if (!continued(1) || !continued(2) || !continued(3)) return 0;
    const bool overlong = byte(0) == 0xf0 && byte(1) < 0x90,
               beyond = byte(0) == 0xf4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

bool IsPlainAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0; });
}

// HDF5 strings end at NUL and are declared UTF-8: other bytes become U+FFFD.
std::string ValidUtf8(std::string_view text) {
  if (IsPlainAscii(text)) return std::string(text);
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = SequenceLength(text);
    valid += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

template <typename Item, typename Field>
void AppendField(h5::Column& column, const std::vector<Item>& items, Field field) {
  using T = std::decay_t<decltype(field(items.front()))>;
  std::vector<T> values;
  values.reserve(items.size());
  for (const Item& item : items) values.push_back(field(item));
  if constexpr (std::is_same_v<T, std::string>) {
    column.AppendStrings(values);
  } else {
    column.Append<T>(values);
  }
}

// A group whose columns grow together. `rows` is what a reader may trust: it is written after the
// rows were flushed.
struct Columns {
  h5::Group group;
  std::vector<h5::Column> columns;
  uint64_t rows = 0;
  uint64_t stated_rows = 0;

  explicit Columns(h5::Group made) : group(std::move(made)) {
    group.SetAttribute("rows", int64_t{0});
  }

  // True where the attribute had to change.
  bool StateRows() {
    if (stated_rows == rows) return false;
    group.SetAttribute("rows", static_cast<int64_t>(rows));
    stated_rows = rows;
    return true;
  }
};

Columns MakeLogs(h5::Group& root) {
  Columns logs(root.CreateGroup("logs"));
  logs.columns.push_back(logs.group.CreateColumn("read_ns", h5::Type::kInt64, kPlain));
  logs.columns.push_back(logs.group.CreateColumn("realtime_ns", h5::Type::kInt64, kPlain));
  logs.columns.push_back(logs.group.CreateColumn("process", h5::Type::kInt32, kPlain));
  logs.columns.push_back(logs.group.CreateColumn("file", h5::Type::kUint32, kPlain));
  logs.columns.push_back(logs.group.CreateColumn("offset", h5::Type::kUint64, kPlain));
  logs.columns.push_back(logs.group.CreateStringColumn("text"));
  return logs;
}

Columns MakeTriples(h5::Group& clock) {
  Columns triples(clock.CreateGroup("triples"));
  triples.columns.push_back(triples.group.CreateColumn("process", h5::Type::kInt32, kPlain));
  triples.columns.push_back(triples.group.CreateColumn("ticks", h5::Type::kUint64, kPlain));
  triples.columns.push_back(triples.group.CreateColumn("monotonic_ns", h5::Type::kInt64, kPlain));
  triples.columns.push_back(triples.group.CreateColumn("realtime_ns", h5::Type::kInt64, kPlain));
  return triples;
}

Columns MakeProbes(h5::Group& clock) {
  Columns probes(clock.CreateGroup("probes"));
  probes.columns.push_back(probes.group.CreateStringColumn("from"));
  probes.columns.push_back(probes.group.CreateStringColumn("to"));
  for (const char* name : {"sent_ns", "received_ns", "answered_ns", "returned_ns"}) {
    probes.columns.push_back(probes.group.CreateColumn(name, h5::Type::kInt64, kPlain));
  }
  return probes;
}

// The events of one process: whole chunks go to the file, the tail waits.
struct ProcessColumns : Columns {
  EventTable tail;

  explicit ProcessColumns(h5::Group made) : Columns(std::move(made)) {
    VisitColumns(tail, [this](const char* name, auto& column) {
      using T = typename std::decay_t<decltype(column)>::value_type;
      columns.push_back(group.CreateColumn(name, h5::TypeOf<T>(), kDeflated));
    });
  }

  void WriteTail(std::size_t count) {
    if (count == 0) return;
    std::size_t index = 0;
    VisitColumns(tail, [&](const char*, auto& values) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      columns[index++].template Append<T>(std::span<const T>(values).first(count));
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    });
    rows += count;
  }

  void WriteWholeChunks() { WriteTail(tail.size() / kEventChunkRows * kEventChunkRows); }
};

void SetIdentity(h5::Group& group, const ProcessInfo& info) {
  group.SetAttribute("rank", static_cast<int64_t>(info.rank));
  group.SetAttribute("node", ValidUtf8(info.node));
  group.SetAttribute("host", ValidUtf8(info.host));
  group.SetAttribute("pid", int64_t{info.pid});
  group.SetAttribute("parent_pid", int64_t{info.parent_pid});
  group.SetAttribute("comm", ValidUtf8(info.comm));
  group.SetAttribute("command", ValidUtf8(info.command));
}

}  // namespace

struct TraceWriter::State {
  h5::File file;
  std::optional<h5::Group> processes_group;
  std::optional<h5::Column> strings_column;
  std::vector<ProcessColumns> processes;
  std::optional<Columns> logs, triples, probes;
  StringInterner strings;
  std::size_t written_strings = 0, stated_strings = 0;
  std::vector<Stat> stats;
  bool open = true;

  explicit State(h5::File made) : file(std::move(made)) {}

  void WriteStrings() {
    std::vector<std::string> fresh;
    for (; written_strings < strings.size(); ++written_strings) {
      fresh.emplace_back(strings.View(StringId{static_cast<uint32_t>(written_strings)}));
    }
    strings_column->AppendStrings(fresh);
  }

  bool StateRows() {
    bool changed = stated_strings != written_strings;
    if (changed) file.root().SetAttribute("strings_rows", static_cast<int64_t>(written_strings));
    stated_strings = written_strings;
    for (ProcessColumns& process : processes) changed |= process.StateRows();
    for (Columns* columns : {&*logs, &*triples, &*probes}) changed |= columns->StateRows();
    return changed;
  }

  void FlushAndStateRows() {
    WriteStrings();
    file.Flush();
    if (StateRows()) file.Flush();
  }

  bool Due() const {
    auto grown = [](const Columns& columns) { return columns.rows != columns.stated_rows; };
    return strings.size() != stated_strings || std::ranges::any_of(processes, grown) ||
           grown(*logs) || grown(*triples) || grown(*probes);
  }

  void WriteStats() {
    h5::Group group = file.root().CreateGroup("stats");
    h5::Column name = group.CreateStringColumn("name"), unit = group.CreateStringColumn("unit");
    h5::Column severity = group.CreateColumn("severity", h5::Type::kUint8, kPlain);
    h5::Column count = group.CreateColumn("count", h5::Type::kInt64, kPlain);
    AppendField(name, stats, [](const Stat& s) { return ValidUtf8(s.name); });
    AppendField(unit, stats, [](const Stat& s) { return ValidUtf8(s.unit); });
    AppendField(severity, stats, [](const Stat& s) { return s.severity; });
    AppendField(count, stats, [](const Stat& s) { return s.count; });
  }

  // Open groups and columns would keep the file open.
  void ReleaseColumns() {
    processes.clear();
    logs.reset();
    triples.reset();
    probes.reset();
    strings_column.reset();
    processes_group.reset();
  }
};

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceMeta& meta)
    : state_(std::make_unique<State>(h5::File::Create(path))) {
  h5::Group& root = state_->file.root();
  h5::WriteSchema(root, kTraceSchema, ValidUtf8(meta.run_id));
  root.SetAttribute("clock", ValidUtf8(meta.clock));
  root.SetAttribute("hosts", std::span<const std::string>(meta.hosts));
  root.SetAttribute("config_yaml", ValidUtf8(meta.config_yaml));
  root.SetAttribute("workload", ValidUtf8(meta.workload));
  root.SetAttribute("strings_rows", int64_t{0});
  state_->strings_column = root.CreateStringColumn("strings");
  state_->processes_group = root.CreateGroup("processes");
  state_->logs = MakeLogs(root);
  h5::Group clock = root.CreateGroup("clock");
  state_->triples = MakeTriples(clock);
  state_->probes = MakeProbes(clock);
  state_->file.Flush();
}

TraceWriter::~TraceWriter() {
  if (state_ && state_->open) state_->ReleaseColumns();
}

int TraceWriter::AddProcess(const ProcessInfo& info) {
  const int index = static_cast<int>(state_->processes.size());
  ProcessColumns process(state_->processes_group->CreateGroup(std::to_string(index)));
  SetIdentity(process.group, info);
  state_->processes.push_back(std::move(process));
  return index;
}

void TraceWriter::UpdateProcess(int process, const ProcessInfo& info) {
  SetIdentity(state_->processes.at(static_cast<std::size_t>(process)).group, info);
}

StringId TraceWriter::Intern(std::string_view text) {
  return IsPlainAscii(text) ? state_->strings.Intern(text)
                            : state_->strings.Intern(ValidUtf8(text));
}

void TraceWriter::Append(int process, const EventTable& events) {
  ProcessColumns& columns = state_->processes.at(static_cast<std::size_t>(process));
  std::vector<const void*> sources;
  VisitColumns(events, [&](const char*, const auto& column) { sources.push_back(&column); });
  std::size_t index = 0;
  VisitColumns(columns.tail, [&](const char*, auto& column) {
    const auto& source = *static_cast<const std::decay_t<decltype(column)>*>(sources[index++]);
    TELLER_CHECK(source.size() == events.size());
    column.insert(column.end(), source.begin(), source.end());
  });
  columns.WriteWholeChunks();
}

void TraceWriter::AppendLogs(const std::vector<LogLine>& lines) {
  if (lines.empty()) return;
  Columns& logs = *state_->logs;
  AppendField(logs.columns[0], lines, [](const LogLine& line) { return line.read_ns; });
  AppendField(logs.columns[1], lines, [](const LogLine& line) { return line.realtime_ns; });
  AppendField(logs.columns[2], lines, [](const LogLine& line) { return line.process; });
  AppendField(logs.columns[3], lines, [](const LogLine& line) { return line.file; });
  AppendField(logs.columns[4], lines, [](const LogLine& line) { return line.offset; });
  AppendField(logs.columns[5], lines, [](const LogLine& line) { return ValidUtf8(line.text); });
  logs.rows += lines.size();
}

void TraceWriter::AppendClock(const std::vector<ClockTriple>& triples) {
  if (triples.empty()) return;
  Columns& clock = *state_->triples;
  AppendField(clock.columns[0], triples, [](const ClockTriple& triple) { return triple.process; });
  AppendField(clock.columns[1], triples, [](const ClockTriple& triple) { return triple.ticks; });
  AppendField(clock.columns[2], triples,
              [](const ClockTriple& triple) { return triple.monotonic_ns; });
  AppendField(clock.columns[3], triples,
              [](const ClockTriple& triple) { return triple.realtime_ns; });
  clock.rows += triples.size();
}

void TraceWriter::AppendProbes(const std::vector<ClockProbe>& probes) {
  if (probes.empty()) return;
  Columns& columns = *state_->probes;
  AppendField(columns.columns[0], probes,
              [](const ClockProbe& probe) { return ValidUtf8(probe.from); });
  AppendField(columns.columns[1], probes,
              [](const ClockProbe& probe) { return ValidUtf8(probe.to); });
  AppendField(columns.columns[2], probes, [](const ClockProbe& probe) { return probe.sent_ns; });
  AppendField(columns.columns[3], probes,
              [](const ClockProbe& probe) { return probe.received_ns; });
  AppendField(columns.columns[4], probes,
              [](const ClockProbe& probe) { return probe.answered_ns; });
  AppendField(columns.columns[5], probes,
              [](const ClockProbe& probe) { return probe.returned_ns; });
  columns.rows += probes.size();
}

void TraceWriter::SetStats(const std::vector<Stat>& stats) { state_->stats = stats; }

void TraceWriter::SetRunId(const std::string& run_id) {
  state_->file.root().SetAttribute("run_id", ValidUtf8(run_id));
}

void TraceWriter::Flush() {
  if (state_->Due()) state_->FlushAndStateRows();
}

void TraceWriter::Close() {
  for (ProcessColumns& process : state_->processes) process.WriteTail(process.tail.size());
  state_->FlushAndStateRows();
  state_->WriteStats();
  state_->file.root().SetAttribute("complete", int64_t{1});
  state_->ReleaseColumns();
  state_->open = false;
  state_->file.Close();
}

}  // namespace teller::trace
