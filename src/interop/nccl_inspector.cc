#include "src/interop/nccl_inspector.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/core/interrupt.h"
#include "src/interop/text_cleaning.h"

namespace teller::interop {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;  // verbose lines list up to 64 channels
constexpr int64_t kNsPerUs = 1000;

/// Which communicator a line is of, and who wrote it.
struct Context {
  std::string communicator;
  std::string host;
  int64_t pid = 0;
  int64_t rank = -1;
  int64_t rank_count = 0;
  int64_t dump_us = 0;
};

struct Operation {
  Context context;
  trace::Event event;
};

std::optional<int64_t> Integer(const dom::object& object, std::string_view key) {
  int64_t value = 0;
  if (object[key].get(value) == simdjson::SUCCESS) return value;
  return std::nullopt;
}

std::string Text(const dom::object& object, std::string_view key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

/// Names of the members that differ between collectives and point-to-point operations.
struct Members {
  std::string_view object, name, sequence, bytes, duration_us;
  trace::Kind kind;
};
constexpr Members kCollective{"coll_perf",         "coll",
                              "coll_sn",           "coll_msg_size_bytes",
                              "coll_exec_time_us", trace::Kind::kCollective};
constexpr Members kPair{"p2p_perf",         "p2p",
                        "p2p_sn",           "p2p_msg_size_bytes",
                        "p2p_exec_time_us", trace::Kind::kPointToPoint};

class InspectorImport {
 public:
  InspectorImport(const ImportOptions& options, TraceSink& sink, ImportLog& log)
      : options_(options), sink_(sink), log_(log) {}

  void AddLine(std::string_view line);
  std::vector<ImportedProcess> Finish();

 private:
  void ReadContext(const dom::object& line);
  void ReadOperation(const dom::object& operation, const Members& members);
  bool SetTimes(const dom::object& operation, const Members& members, trace::Event& event);
  bool SetKernelTimes(const dom::object& times, trace::Event& event);

  const ImportOptions& options_;
  TraceSink& sink_;
  ImportLog& log_;
  dom::parser parser_;
  Context context_;  ///< of the last line that stated one; lines of v4.3 rely on it
  std::vector<Operation> operations_;
};

void InspectorImport::AddLine(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  dom::object object;
  if (line.size() > kMaxLineBytes ||
      parser_.parse(line.data(), line.size(), true).get(object) != simdjson::SUCCESS) {
    log_.Count("malformed_record", 1, trace::Severity::kError);
    return;
  }
  ReadContext(object);
  dom::object operation;
  for (const Members& members : {kCollective, kPair}) {
    if (object[members.object].get(operation) != simdjson::SUCCESS) continue;
    log_.CountSource(members.object);
    return ReadOperation(operation, members);
  }
  for (const std::string_view other : {"dump_stats", "proxy_trace"}) {
    if (object[other].error() != simdjson::SUCCESS) continue;
    log_.CountSource(other);
    if (other == "proxy_trace") log_.Count("skipped_proxy_trace");
    return;
  }
  log_.CountSource("other");
  log_.Count("unknown_record", 1, trace::Severity::kError);
}

void InspectorImport::ReadContext(const dom::object& line) {
  dom::object header;
  if (line["header"].get(header) == simdjson::SUCCESS) {
    context_.communicator = Text(header, "id");
    context_.rank = Integer(header, "rank").value_or(-1);
    context_.rank_count = Integer(header, "n_ranks").value_or(0);
  }
  dom::object metadata;
  if (line["metadata"].get(metadata) == simdjson::SUCCESS) {
    context_.host = Text(metadata, "hostname");
    context_.pid = Integer(metadata, "pid").value_or(0);
    context_.dump_us = Integer(metadata, "dump_timestamp_us").value_or(0);
  }
}

/// First start and last stop of the kernels, in microseconds since 1970.
bool InspectorImport::SetKernelTimes(const dom::object& times, trace::Event& event) {
  dom::array kernels;
  if (times["kernel_events"].get(kernels) != simdjson::SUCCESS) return false;
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const dom::element element : kernels) {
    dom::object kernel;
    if (element.get(kernel) != simdjson::SUCCESS) continue;
    const auto start = Integer(kernel, "kernel_start_ts");
    const auto stop = Integer(kernel, "kernel_stop_ts");
    if (!start || !stop || *start <= 0 || *stop < *start) continue;
    first = std::min(first, *start);
    last = std::max(last, *stop);
  }
  return last >= first && !__builtin_mul_overflow(first, kNsPerUs, &event.begin_ns) &&
         !__builtin_mul_overflow(last, kNsPerUs, &event.end_ns);
}

bool InspectorImport::SetTimes(const dom::object& operation, const Members& members,
                               trace::Event& event) {
  dom::object times;
  if (operation["event_trace_ts"].get(times) == simdjson::SUCCESS && SetKernelTimes(times, event))
    return true;
  const auto duration_us = Integer(operation, members.duration_us);
  int64_t duration_ns = 0;
  if (!duration_us || *duration_us < 0 || context_.dump_us <= 0 ||
      __builtin_mul_overflow(*duration_us, kNsPerUs, &duration_ns) ||
      __builtin_mul_overflow(context_.dump_us, kNsPerUs, &event.end_ns)) {
    log_.Count("bad_time", 1, trace::Severity::kError);
    return false;
  }
  event.begin_ns = event.end_ns - duration_ns;
  log_.Count("time_from_dump");
  return true;
}

void InspectorImport::ReadOperation(const dom::object& operation, const Members& members) {
  trace::Event event{.layer = trace::Layer::kComm,
                     .kind = members.kind,
                     .source = trace::Source::kImport,
                     .flags = trace::kFlagOnDevice};
  if (!SetTimes(operation, members, event)) return;
  event.name = sink_.Intern(CleanName(Text(operation, members.name), options_, log_));
  event.comm = sink_.Intern(context_.communicator);
  event.bytes = Integer(operation, members.bytes).value_or(-1);
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const int64_t sequence = Integer(operation, members.sequence).value_or(-1);
  event.sequence = sequence >= 0 && sequence <= kMax ? static_cast<int32_t>(sequence) : -1;
  const int64_t peer = Integer(operation, "p2p_peer").value_or(-1);
  event.peer = peer >= 0 && peer <= kMax ? static_cast<int32_t>(peer) : -1;
  operations_.push_back({context_, event});
}

std::vector<ImportedProcess> InspectorImport::Finish() {
  using ProcessId = std::pair<std::string, int64_t>;  // host, pid
  struct Largest {
    int64_t rank_count = -1;
    std::string communicator;
    std::set<int64_t> ranks;
  };
  std::map<ProcessId, Largest> largest;
  for (const Operation& operation : operations_) {
    const Context& context = operation.context;
    Largest& best = largest[{context.host, context.pid}];
    if (context.rank_count > best.rank_count) best = {context.rank_count, context.communicator, {}};
    if (context.communicator == best.communicator) best.ranks.insert(context.rank);
  }
  std::map<std::tuple<std::string, int64_t, int64_t>, std::pair<ImportedProcess, trace::EventTable>>
      processes;
  std::map<std::string, uint32_t> tracks;
  for (Operation& operation : operations_) {
    const Context& context = operation.context;
    const Largest& best = largest[{context.host, context.pid}];
    // A process that drives several devices has several ranks in one communicator.
    const int64_t rank = best.ranks.size() == 1 ? *best.ranks.begin() : context.rank;
    auto [found, is_new] = processes.try_emplace({context.host, context.pid, rank});
    auto& [process, events] = found->second;
    if (is_new) {
      process.info.host = context.host;
      process.info.pid = static_cast<uint32_t>(std::clamp<int64_t>(context.pid, 0, UINT32_MAX));
      if (rank >= 0 && rank <= INT32_MAX) process.info.rank = RankId{static_cast<int32_t>(rank)};
      process.index = sink_.AddProcess(process.info);
    }
    operation.event.track =
        tracks.try_emplace(context.communicator, static_cast<uint32_t>(tracks.size()))
            .first->second;
    events.Append(operation.event);
  }
  std::vector<ImportedProcess> answer;
  for (const auto& [key, process] : processes) {
    sink_.Append(process.first.index, process.second);
    answer.push_back(process.first);
  }
  return answer;
}

}  // namespace

std::vector<ImportedProcess> ImportNcclInspector(ByteStream& in, const ImportOptions& options,
                                                 TraceSink& sink, ImportLog& log) {
  InspectorImport import(options, sink, log);
  std::string block(std::size_t{256} << 10, '\0');
  std::string line;
  while (const std::size_t count = in.Read(block.data(), block.size())) {
    ThrowIfInterrupted();
    std::string_view rest = std::string_view(block).substr(0, count);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      if (line.size() <= kMaxLineBytes) line.append(rest.substr(0, end));
      if (end == rest.size()) break;
      import.AddLine(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
  if (!line.empty()) import.AddLine(line);
  return import.Finish();
}

}  // namespace teller::interop
