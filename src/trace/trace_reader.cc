#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/core/error.h"
#include "src/h5/file.h"
#include "src/trace/trace_file.h"
#include "src/trace/trace_schema.h"

namespace teller::trace {
namespace {

std::string TextOr(const h5::Group& group, const char* name, std::string missing = {}) {
  return group.HasAttribute(name) ? group.GetString(name) : std::move(missing);
}

// Ids and pids are kept as 64-bit attributes; a value that does not fit is a damaged file.
template <typename T>
T Narrow(const h5::Group& group, const char* name) {
  const int64_t value = group.GetInt(name);
  if (!std::in_range<T>(value)) {
    throw DataError(
        fmt::format("{}: attribute '{}' is {}, out of range", group.where(), name, value));
  }
  return static_cast<T>(value);
}

ProcessInfo ReadProcess(const h5::Group& group) {
  return {.rank = RankId{Narrow<int32_t>(group, "rank")},
          .node = TextOr(group, "node"),
          .host = TextOr(group, "host"),
          .pid = Narrow<uint32_t>(group, "pid"),
          .parent_pid = Narrow<uint32_t>(group, "parent_pid"),
          .comm = TextOr(group, "comm"),
          .command = TextOr(group, "command")};
}

TraceMeta ReadMeta(const h5::Group& root) {
  TraceMeta meta{.run_id = TextOr(root, "run_id"),
                 .clock = TextOr(root, "clock", "monotonic"),
                 .config_yaml = TextOr(root, "config_yaml"),
                 .workload = TextOr(root, "workload")};
  if (root.HasAttribute("hosts")) meta.hosts = root.GetStrings("hosts");
  return meta;
}

// What may be trusted: all of a complete file, in an incomplete one what was flushed.
uint64_t Rows(const h5::Group& group, const char* attribute = "rows") {
  const int64_t rows = group.GetInt(attribute);
  if (rows < 0)
    throw DataError(fmt::format("{}: attribute '{}' is {}", group.where(), attribute, rows));
  return static_cast<uint64_t>(rows);
}

template <typename T>
std::vector<T> ReadRows(const h5::Group& group, const char* name, uint64_t rows) {
  return group.OpenColumn(name).Read<T>(0, rows);
}

std::vector<std::string> ReadTexts(const h5::Group& group, const char* name, uint64_t rows) {
  return group.OpenColumn(name).ReadStrings(0, rows);
}

template <typename T>
void CheckCodes(const h5::Group& group, const char* column, const std::vector<T>& codes,
                int count) {
  for (const T code : codes) {
    if (static_cast<int>(code) < count) continue;
    throw DataError(fmt::format("{}/{}: code {} is not one of the {} known", group.where(), column,
                                static_cast<int>(code), count));
  }
}

void CheckStrings(const h5::Group& group, const char* column, const std::vector<StringId>& ids,
                  std::size_t count, bool required) {
  for (const StringId id : ids) {
    if (Index(id) < count || (!required && id == kNoString)) continue;
    throw DataError(fmt::format("{}/{}: string {} of {} does not exist", group.where(), column,
                                Index(id), count));
  }
}

void CheckProcesses(const h5::Group& group, const std::vector<int32_t>& processes,
                    std::size_t count) {
  for (const int32_t process : processes) {
    if (process >= -1 && process < static_cast<int64_t>(count)) continue;
    throw DataError(
        fmt::format("{}/process: process {} of {} does not exist", group.where(), process, count));
  }
}

}  // namespace

struct TraceReader::State {
  h5::File file;
  bool complete = false;
  TraceMeta meta;
  StringInterner strings;
  std::vector<ProcessInfo> processes;

  explicit State(h5::File opened) : file(std::move(opened)) {}

  h5::Group ProcessGroup(std::size_t process) const {
    return file.root().OpenGroup("processes").OpenGroup(std::to_string(process));
  }

  void LoadStrings() {
    const uint64_t rows = Rows(file.root(), "strings_rows");
    for (const std::string& text : ReadTexts(file.root(), "strings", rows)) strings.Intern(text);
    if (strings.size() != rows) {
      throw DataError(fmt::format("{}strings: {} of {} strings are repeated; the file is damaged",
                                  file.root().where(), rows - strings.size(), rows));
    }
  }

  void LoadProcesses() {
    const std::size_t count = file.root().OpenGroup("processes").Children().size();
    for (std::size_t i = 0; i < count; ++i) processes.push_back(ReadProcess(ProcessGroup(i)));
  }
};

TraceReader::TraceReader(const std::filesystem::path& path)
    : state_(std::make_unique<State>(h5::File::Open(path))) {
  const h5::Group& root = state_->file.root();
  h5::CheckSchema(root, kTraceSchema);
  state_->complete = root.HasAttribute("complete") && root.GetInt("complete") == 1;
  state_->meta = ReadMeta(root);
  state_->LoadStrings();
  state_->LoadProcesses();
}

TraceReader::~TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;

bool TraceReader::complete() const { return state_->complete; }
const TraceMeta& TraceReader::meta() const { return state_->meta; }
const StringInterner& TraceReader::strings() const { return state_->strings; }
const std::vector<ProcessInfo>& TraceReader::processes() const { return state_->processes; }

EventTable TraceReader::ReadEvents(int process) const {
  const h5::Group group = state_->ProcessGroup(static_cast<std::size_t>(process));
  const uint64_t rows = Rows(group);
  EventTable events;
  VisitColumns(events, [&](const char* name, auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    column = ReadRows<T>(group, name, rows);
  });
  CheckCodes(group, "layer", events.layer, kLayerCount);
  CheckCodes(group, "kind", events.kind, kKindCount);
  CheckCodes(group, "source", events.source, kSourceCount);
  CheckStrings(group, "name", events.name, state_->strings.size(), true);
  CheckStrings(group, "comm", events.comm, state_->strings.size(), false);
  CheckStrings(group, "request", events.request, state_->strings.size(), false);
  return events;
}

std::vector<LogLine> TraceReader::ReadLogs() const {
  const h5::Group group = state_->file.root().OpenGroup("logs");
  const uint64_t rows = Rows(group);
  const auto read_ns = ReadRows<int64_t>(group, "read_ns", rows);
  const auto realtime_ns = ReadRows<int64_t>(group, "realtime_ns", rows);
  const auto process = ReadRows<int32_t>(group, "process", rows);
  const auto file = ReadRows<StringId>(group, "file", rows);
  const auto offset = ReadRows<uint64_t>(group, "offset", rows);
  auto text = ReadTexts(group, "text", rows);
  CheckProcesses(group, process, state_->processes.size());
  CheckStrings(group, "file", file, state_->strings.size(), false);
  std::vector<LogLine> lines;
  lines.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    lines.push_back(
        {read_ns[i], realtime_ns[i], process[i], file[i], offset[i], std::move(text[i])});
  }
  return lines;
}

std::vector<ClockTriple> TraceReader::ReadClock() const {
  const h5::Group group = state_->file.root().OpenGroup("clock").OpenGroup("triples");
  const uint64_t rows = Rows(group);
  const auto process = ReadRows<int32_t>(group, "process", rows);
  const auto ticks = ReadRows<uint64_t>(group, "ticks", rows);
  const auto monotonic_ns = ReadRows<int64_t>(group, "monotonic_ns", rows);
  const auto realtime_ns = ReadRows<int64_t>(group, "realtime_ns", rows);
  CheckProcesses(group, process, state_->processes.size());
  std::vector<ClockTriple> triples;
  for (std::size_t i = 0; i < rows; ++i)
    triples.push_back({process[i], ticks[i], monotonic_ns[i], realtime_ns[i]});
  return triples;
}

std::vector<ClockProbe> TraceReader::ReadProbes() const {
  const h5::Group group = state_->file.root().OpenGroup("clock").OpenGroup("probes");
  const uint64_t rows = Rows(group);
  auto from = ReadTexts(group, "from", rows);
  auto to = ReadTexts(group, "to", rows);
  const auto sent_ns = ReadRows<int64_t>(group, "sent_ns", rows);
  const auto received_ns = ReadRows<int64_t>(group, "received_ns", rows);
  const auto answered_ns = ReadRows<int64_t>(group, "answered_ns", rows);
  const auto returned_ns = ReadRows<int64_t>(group, "returned_ns", rows);
  std::vector<ClockProbe> probes;
  for (std::size_t i = 0; i < rows; ++i) {
    probes.push_back({std::move(from[i]), std::move(to[i]), sent_ns[i], received_ns[i],
                      answered_ns[i], returned_ns[i]});
  }
  return probes;
}

std::vector<Stat> TraceReader::ReadStats() const {
  if (!state_->file.root().Has("stats")) return {};  // the writer was killed before it could say
  const h5::Group group = state_->file.root().OpenGroup("stats");
  auto name = group.ReadStrings("name");
  auto unit = group.ReadStrings("unit", name.size());
  const auto severity = group.Read<Severity>("severity", name.size());
  const auto count = group.Read<int64_t>("count", name.size());
  CheckCodes(group, "severity", severity, 3);
  std::vector<Stat> stats;
  for (std::size_t i = 0; i < name.size(); ++i) {
    stats.push_back({std::move(name[i]), std::move(unit[i]), severity[i], count[i]});
  }
  return stats;
}

}  // namespace teller::trace
