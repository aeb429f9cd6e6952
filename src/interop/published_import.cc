#include "src/interop/published_import.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/interop/event_class.h"
#include "src/interop/json_records.h"
#include "src/interop/text_cleaning.h"

namespace teller::interop {
namespace {

namespace dom = simdjson::dom;

std::optional<int64_t> Integer(const dom::object& object, std::string_view key) {
  int64_t value = 0;
  if (object[key].get(value) == simdjson::SUCCESS) return value;
  double number = 0;
  constexpr double kExact = 9e15;  // whole numbers that Python wrote as floats
  if (object[key].get(number) == simdjson::SUCCESS && number > -kExact && number < kExact) {
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::optional<int64_t> FirstInteger(const dom::object& object,
                                    std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto value = Integer(object, key)) return value;
  }
  return std::nullopt;
}

class PublishedReader final : public JsonRecordHandler {
 public:
  PublishedReader(const ImportOptions& options, TraceSink& sink, ImportLog& log)
      : options_(options), sink_(sink), log_(log) {}

  void OnMember(std::string_view /*key*/, std::string_view /*json*/) override {}
  std::size_t OnRecords(const JsonBatch& batch) override;
  std::vector<ImportedProcess> Finish();

 private:
  struct Process {
    ImportedProcess imported;
    trace::EventTable events;
  };

  void ReadStep(const dom::object& step);
  void ReadOperators(const dom::object& parent, std::string_view key, trace::Kind kind);
  void ReadCalls(const dom::object& parent, std::string_view key);
  void ReadKernels(const dom::object& call, uint64_t correlation);
  bool SetTimes(const dom::object& object, trace::Event& event);
  bool AddEvent(const dom::object& object, std::string_view name_key, trace::Event& event);
  Process& ProcessOf(const dom::object& step);

  /// Calls `visit(object)` for every object of an array member; what else stands in it is counted.
  template <typename Visit>
  void ForEach(const dom::object& parent, std::string_view key, Visit visit) {
    dom::array array;
    if (parent[key].get(array) != simdjson::SUCCESS) return;
    for (const dom::element element : array) {
      dom::object object;
      log_.CountSource(key);
      if (element.get(object) == simdjson::SUCCESS) {
        visit(object);
      } else {
        log_.Count("malformed_record", 1, trace::Severity::kError);
      }
    }
  }

  const ImportOptions& options_;
  TraceSink& sink_;
  ImportLog& log_;
  dom::parser parser_;
  std::map<std::pair<int64_t, int64_t>, Process> processes_;  ///< by rank and pid
  Process* current_ = nullptr;
  uint32_t thread_ = 0;
  uint64_t next_correlation_ = 1;
};

std::size_t PublishedReader::OnRecords(const JsonBatch& batch) {
  for (std::size_t i = 0; i < batch.records.size(); ++i) {
    ThrowIfInterrupted();
    const JsonRange range = batch.records[i];
    dom::object step;
    if (parser_.parse(batch.data + range.begin, range.end - range.begin, true).get(step) !=
        simdjson::SUCCESS)
      return i;
    log_.CountSource("steps");
    ReadStep(step);
  }
  return batch.records.size();
}

PublishedReader::Process& PublishedReader::ProcessOf(const dom::object& step) {
  const int64_t rank = Integer(step, "rank").value_or(-1);
  const int64_t pid = FirstInteger(step, {"pid", "process_id"}).value_or(0);
  const auto [found, is_new] = processes_.try_emplace({rank, pid});
  if (is_new) {
    trace::ProcessInfo& info = found->second.imported.info;
    info.pid =
        static_cast<uint32_t>(std::clamp<int64_t>(pid, 0, std::numeric_limits<uint32_t>::max()));
    if (rank >= 0 && rank <= std::numeric_limits<int32_t>::max())
      info.rank = RankId{static_cast<int32_t>(rank)};
    found->second.imported.index = sink_.AddProcess(info);
  }
  return found->second;
}

bool PublishedReader::SetTimes(const dom::object& object, trace::Event& event) {
  const auto begin = FirstInteger(object, {"start", "gpu_start"});
  auto end = FirstInteger(object, {"end", "gpu_end"});
  const auto duration = Integer(object, "duration");
  int64_t sum = 0;
  if (begin && !end && duration && !__builtin_add_overflow(*begin, *duration, &sum)) end = sum;
  if (!begin || !end) {
    log_.Count("bad_time", 1, trace::Severity::kError);
    return false;
  }
  event.begin_ns = *begin;
  event.end_ns = std::max(*begin, *end);
  if (*end < *begin) log_.Count("negative_duration_as_zero", 1, trace::Severity::kError);
  if (*begin == 0 && *end == 0) {
    event.flags |= trace::kFlagNoTiming;
    log_.Count("no_timing");
  }
  return true;
}

bool PublishedReader::AddEvent(const dom::object& object, std::string_view name_key,
                               trace::Event& event) {
  if (!SetTimes(object, event)) return false;
  std::string_view name;
  if (object[name_key].get(name) != simdjson::SUCCESS) log_.Count("missing_name");
  event.name = sink_.Intern(CleanName(name, options_, log_));
  event.source = trace::Source::kImport;
  current_->events.Append(event);
  return true;
}

void PublishedReader::ReadStep(const dom::object& step) {
  current_ = &ProcessOf(step);
  thread_ = static_cast<uint32_t>(
      std::clamp<int64_t>(FirstInteger(step, {"tid", "thread_id"}).value_or(0), 0, UINT32_MAX));
  trace::Event event{.layer = trace::Layer::kEngine, .kind = trace::Kind::kRange, .track = thread_};
  AddEvent(step, "step_name", event);
  ReadOperators(step, "torch_frontend_ops", trace::Kind::kRange);
}

void PublishedReader::ReadOperators(const dom::object& parent, std::string_view key,
                                    trace::Kind kind) {
  ForEach(parent, key, [&](const dom::object& object) {
    trace::Event event{.layer = trace::Layer::kBackend, .kind = kind, .track = thread_};
    bool synthetic =
        false;  // our exporter's: the layout wants an operator where the trace had none
    if (object["teller_synthetic"].get(synthetic) != simdjson::SUCCESS) synthetic = false;
    std::string_view name;
    if (object["op_name"].get(name) == simdjson::SUCCESS && IsCommRange(name)) {
      event.layer = trace::Layer::kComm;
      event.kind = CommKind(name);
    }
    if (!synthetic) AddEvent(object, "op_name", event);
    if (kind == trace::Kind::kRange) {
      ReadOperators(object, "torch_backend_ops", trace::Kind::kOperator);
    } else {
      ReadCalls(object, "runtime_calls");
      ReadCalls(object, "driver_calls");
    }
  });
}

void PublishedReader::ReadCalls(const dom::object& parent, std::string_view key) {
  ForEach(parent, key, [&](const dom::object& object) {
    std::string_view name;
    if (object["name"].get(name) != simdjson::SUCCESS) name = {};
    trace::Event event{.layer = trace::Layer::kHostApi, .kind = ApiKind(name), .track = thread_};
    const auto stated = FirstInteger(object, {"correlation", "correlation_id", "correlationId"});
    dom::array kernels;
    const bool has_kernels =
        object["kernels"].get(kernels) == simdjson::SUCCESS && kernels.size() > 0;
    if (stated && *stated > 0) {
      event.correlation = static_cast<uint64_t>(*stated);
    } else if (has_kernels) {
      event.correlation = (uint64_t{1} << 62) + next_correlation_++;  // above ids that files state
      log_.Count("correlation_from_nesting");
    }
    AddEvent(object, "name", event);
    ReadKernels(object, event.correlation);
  });
}

void PublishedReader::ReadKernels(const dom::object& call, uint64_t correlation) {
  ForEach(call, "kernels", [&](const dom::object& object) {
    std::string_view name;
    if (object["name"].get(name) != simdjson::SUCCESS) name = {};
    trace::Event event{
        .layer = trace::Layer::kDevice, .kind = trace::Kind::kKernel, .correlation = correlation};
    if (IsCommKernel(name)) {
      event.layer = trace::Layer::kComm;
      event.kind = CommKind(name);
    } else if (name.starts_with("Memcpy") || name.starts_with("[CUDA memcpy")) {
      event.kind = trace::Kind::kMemcpy;
    } else if (name.starts_with("Memset") || name.starts_with("[CUDA memset")) {
      event.kind = trace::Kind::kMemset;
    }
    event.bytes = FirstInteger(object, {"bytes", "size_bytes"}).value_or(-1);
    event.flags = trace::kFlagOnDevice;
    event.track = static_cast<uint32_t>(std::clamp<int64_t>(
        FirstInteger(object, {"stream", "stream_id", "streamId"}).value_or(0), 0, UINT32_MAX));
    AddEvent(object, "name", event);
  });
}

std::vector<ImportedProcess> PublishedReader::Finish() {
  std::vector<ImportedProcess> answer;
  for (auto& [key, process] : processes_) {
    sink_.Append(process.imported.index, process.events);
    if (process.events.size() > 0) answer.push_back(process.imported);
  }
  return answer;
}

}  // namespace

std::vector<ImportedProcess> ImportPublished(ByteStream& in, const ImportOptions& options,
                                             TraceSink& sink, ImportLog& log) {
  PublishedReader handler(options, sink, log);
  JsonRecordReader reader(in, "steps", handler, log);
  if (!reader.Run()) throw DataError("expected a JSON object");
  return handler.Finish();
}

}  // namespace teller::interop
