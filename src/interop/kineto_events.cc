#include "src/interop/kineto_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/interop/decimal.h"
#include "src/interop/device_tracks.h"
#include "src/interop/event_class.h"
#include "src/interop/event_columns.h"
#include "src/interop/text_cleaning.h"

namespace teller::interop {

enum class KinetoEvents::Category : uint8_t {
  kOperator,
  kAnnotation,
  kPython,
  kApi,
  kKernel,
  kCopy,
  kSet,
  kSync,
  kDerived,   // spans that the profiler computed from other events
  kSpan,      // the profiler's own session
  kOverhead,  // the profiler's own cost
  kUnknown
};

namespace {

constexpr int32_t kUnknownOwner = -1;
constexpr int64_t kHost = -1;

trace::EventTable SelectRows(const trace::EventTable& table, const std::vector<uint32_t>& rows) {
  trace::EventTable out;
  VisitColumnPairs(out, table, [&](auto& to, const auto& from) {
    to.reserve(rows.size());
    for (const uint32_t row : rows) to.push_back(from[row]);
  });
  return out;
}

bool IsQuoted(std::string_view token) { return !token.empty() && token.front() == '"'; }

std::string_view Unquoted(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    return token.substr(1, token.size() - 2);
  }
  return token;
}

int32_t Clamp32(std::optional<int64_t> value) {
  return value && *value >= 0 && *value <= INT32_MAX ? static_cast<int32_t>(*value) : -1;
}

/// Bytes of the first operand: '[[394241]]' of '["float"]'. None where a size or type is unknown.
std::optional<int64_t> OperandBytes(std::string_view dims, std::string_view types) {
  const std::size_t open = dims.find('[', 1);
  const std::size_t close = dims.find(']');
  const std::size_t quote = types.find('"');
  const std::size_t quote_end =
      quote == std::string_view::npos ? quote : types.find('"', quote + 1);
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  if (quote_end == std::string_view::npos) return std::nullopt;
  const auto element = ElementBytes(types.substr(quote + 1, quote_end - quote - 1));
  if (!element) return std::nullopt;
  int64_t bytes = *element;
  std::string_view rest = dims.substr(open + 1, close - open - 1);
  if (rest.empty()) return std::nullopt;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto size = ParseInteger(rest.substr(0, comma));
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes)) return std::nullopt;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return bytes;
}

}  // namespace

KinetoEvents::Category KinetoEvents::Classify(std::string_view name) {
  using Named = std::pair<std::string_view, Category>;
  constexpr std::array<Named, 28> kNames = {{
      {"cpu_op", Category::kOperator},
      {"Operator", Category::kOperator},
      {"user_annotation", Category::kAnnotation},
      {"python_function", Category::kPython},
      {"cuda_runtime", Category::kApi},
      {"cuda_driver", Category::kApi},
      {"Runtime", Category::kApi},
      {"Driver", Category::kApi},
      {"hip_runtime", Category::kApi},
      {"hip_driver", Category::kApi},
      {"xpu_runtime", Category::kApi},
      {"xpu_driver", Category::kApi},
      {"mtia_runtime", Category::kApi},
      {"privateuse1_runtime", Category::kApi},
      {"privateuse1_driver", Category::kApi},
      {"kernel", Category::kKernel},
      {"Kernel", Category::kKernel},
      {"gpu_memcpy", Category::kCopy},
      {"Memcpy", Category::kCopy},
      {"gpu_memset", Category::kSet},
      {"Memset", Category::kSet},
      {"cuda_sync", Category::kSync},
      {"gpu_sync", Category::kSync},
      {"gpu_user_annotation", Category::kDerived},
      {"Trace", Category::kSpan},
      {"overhead", Category::kOverhead},
      {"CPU functions", Category::kOperator},  // the autograd profiler names no category
      {"CUDA functions", Category::kKernel},
  }};
  for (const Named& named : kNames) {
    if (named.first == name) return named.second;
  }
  return Category::kUnknown;
}

KinetoEvents::KnownCategory& KinetoEvents::FindCategory(std::string_view name) {
  if (last_category_ < categories_.size() && categories_[last_category_].name == name)
    return categories_[last_category_];
  const auto found = std::find_if(categories_.begin(), categories_.end(),
                                  [&](const KnownCategory& known) { return known.name == name; });
  last_category_ = static_cast<std::size_t>(found - categories_.begin());
  if (found != categories_.end()) return *found;
  constexpr std::size_t kMaxCategories = 256;
  if (categories_.size() == kMaxCategories) return categories_.back();
  return categories_.emplace_back(KnownCategory{std::string(name), Classify(name), 0});
}

KinetoEvents::KnownCategory& KinetoEvents::CategoryOf(const ChromeEvent& event) {
  if (!event.category.empty()) return FindCategory(event.category);
  // The autograd profiler says 'CPU functions' or 'CUDA functions' where others have a process.
  if (event.phase == "X" && IsQuoted(event.process)) return FindCategory(Unquoted(event.process));
  return FindCategory("ph:" + std::string(event.phase));
}

void KinetoEvents::Add(const ChromeEvent& event) {
  if (!event.has_fields) {
    log_->Count("empty_event");
    return;
  }
  KnownCategory& known = CategoryOf(event);
  ++known.count;
  switch (event.phase.size() == 1 ? event.phase.front() : '\0') {
    case 'X':
    case 'B':
    case 'b':
      return AddRow(event, known.category);
    case 'E':
    case 'e':
      return CloseRow(event);
    case 'M':
      return AddMetadata(event);
    case 's':
    case 'f':
    case 't':
      return log_->Count("skipped_flow_arrow");  // says what the correlation id says
    case 'i':
    case 'I':
    case 'n':
      return log_->Count("skipped_instant");
    default:
      return log_->Count("unknown_phase", 1, trace::Severity::kError);
  }
}

void KinetoEvents::AddMetadata(const ChromeEvent& event) {
  if (event.name != "process_name") return;
  const auto pid = ParseInteger(event.process);
  if (pid && *pid > 0) process_names_[*pid] = std::string(event.label);
}

std::string KinetoEvents::OpenKey(const ChromeEvent& event) const {
  const bool nested = event.phase == "B" || event.phase == "E";
  return nested ? fmt::format("{}|{}", event.process, event.thread)
                : fmt::format("{}|{}|{}", event.category, event.id, event.process);
}

bool KinetoEvents::SetTimes(const ChromeEvent& event, trace::Event& row) {
  const auto begin = MicrosecondsToNs(event.begin_us);
  if (!begin) {
    log_->Count("bad_time", 1, trace::Severity::kError);
    return false;
  }
  row.begin_ns = row.end_ns = *begin;
  const auto duration =
      event.duration_us.empty() ? std::nullopt : MicrosecondsToNs(event.duration_us);
  if (!duration) {
    if (event.phase == "X") log_->Count("event_without_end");
    row.flags |= trace::kFlagOpen;
    return true;
  }
  if (*duration < 0) {
    log_->Count("negative_duration_as_zero", 1, trace::Severity::kError);
  } else if (__builtin_add_overflow(row.begin_ns, *duration, &row.end_ns)) {
    log_->Count("time_out_of_range", 1, trace::Severity::kError);
    return false;
  }
  if (*begin == 0 && *duration == 0) {
    log_->Count("no_timing");
    row.flags |= trace::kFlagNoTiming;
  }
  return true;
}

bool KinetoEvents::SetDevice(const ChromeEvent& event, Category category, trace::Event& row) {
  row.flags |= trace::kFlagOnDevice;
  row.layer = trace::Layer::kDevice;
  switch (category) {
    case Category::kKernel:
      row.kind = trace::Kind::kKernel;
      if (!IsCommKernel(event.name)) break;
      row.layer = trace::Layer::kComm;
      row.kind = CommKind(event.name);
      SetComm(event, row);
      break;
    case Category::kCopy:
      row.kind = trace::Kind::kMemcpy;
      break;
    case Category::kSet:
      row.kind = trace::Kind::kMemset;
      break;
    case Category::kSync:
      row.kind = trace::Kind::kSync;
      break;
    default:
      return false;
  }
  if (!event.bytes.empty()) row.bytes = ParseInteger(event.bytes).value_or(-1);
  row.graph_node = event.graph_node.empty() ? 0 : ParseUnsigned(event.graph_node).value_or(0);
  const bool has_device = !event.device.empty();
  device_.push_back(
      std::max<int64_t>(0, ParseInteger(has_device ? event.device : event.process).value_or(0)));
  thread_.push_back(ParseInteger(event.stream.empty() ? event.thread : event.stream).value_or(-1));
  return true;
}

void KinetoEvents::SetHost(const ChromeEvent& event, Category category, trace::Event& row) {
  switch (category) {
    case Category::kOperator:
      row.layer = trace::Layer::kBackend;
      row.kind = trace::Kind::kOperator;
      break;
    case Category::kPython:
      row.layer = trace::Layer::kBackend;
      row.kind = trace::Kind::kRange;
      break;
    case Category::kApi:
      row.layer = trace::Layer::kHostApi;
      row.kind = ApiKind(event.name);
      break;
    default:
      if (category == Category::kUnknown) log_->Count("unknown_category_as_range");
      row.layer = trace::Layer::kEngine;
      row.kind = event.phase == "b" ? trace::Kind::kStartEnd : trace::Kind::kRange;
      break;
  }
  if (category != Category::kApi && category != Category::kPython && IsCommRange(event.name)) {
    row.layer = trace::Layer::kComm;
    row.kind = CommKind(event.name);
    SetComm(event, row);
  }
  device_.push_back(kHost);
  const auto thread = ParseInteger(event.thread);
  thread_.push_back(thread ? *thread
                           : -2 - static_cast<int64_t>(Index(InternName(Unquoted(event.thread)))));
}

void KinetoEvents::SetComm(const ChromeEvent& event, trace::Event& row) {
  if (!event.group.empty()) row.comm = InternName(event.group);
  row.sequence = event.sequence.empty() ? -1 : Clamp32(ParseInteger(event.sequence));
  const auto count = event.element_count.empty() ? std::nullopt : ParseInteger(event.element_count);
  const auto element = ElementBytes(event.element_type);
  int64_t bytes = -1;
  if (count && element && *count >= 0 &&
      !__builtin_mul_overflow(*count, int64_t{*element}, &bytes)) {
    row.bytes = bytes;
  } else if (!event.input_dims.empty()) {
    row.bytes = OperandBytes(event.input_dims, event.input_types).value_or(-1);
  }
  if (row.kind != trace::Kind::kPointToPoint) return;
  const std::string_view peer =
      event.name.find("ecv") != std::string_view::npos ? event.source_rank : event.destination_rank;
  if (!peer.empty()) row.peer = Clamp32(ParseInteger(peer));
}

int32_t KinetoEvents::HostProcess(const ChromeEvent& event) {
  const auto pid = ParseInteger(event.process);
  // Frames of Python threads stand under pid 0 in some versions; no process of a user has it.
  if (!pid || *pid <= 0 || *pid > UINT32_MAX) return kUnknownOwner;
  const auto [found, is_new] =
      process_index_.emplace(*pid, static_cast<int32_t>(processes_.size()));
  if (is_new) {
    processes_.push_back(*pid);
    process_events_.push_back(0);
  }
  ++process_events_[static_cast<std::size_t>(found->second)];
  return found->second;
}

void KinetoEvents::AddRow(const ChromeEvent& event, Category category) {
  switch (category) {
    case Category::kDerived:
      return log_->Count("skipped_derived_device_annotation");
    case Category::kSpan:
      return log_->Count("skipped_profiler_span");
    case Category::kOverhead:
      return log_->Count("skipped_profiler_overhead");
    default:
      break;
  }
  trace::Event row{.source = trace::Source::kImport};
  if (!SetTimes(event, row)) return;
  row.name = InternName(event.name);
  if (!event.correlation.empty()) {
    const auto correlation = ParseUnsigned(event.correlation);
    if (!correlation) log_->Count("bad_correlation", 1, trace::Severity::kError);
    row.correlation = correlation.value_or(0);
  }
  if (SetDevice(event, category, row)) {
    owner_.push_back(kUnknownOwner);
  } else {
    row.flags &= static_cast<uint16_t>(~trace::kFlagOnDevice);
    SetHost(event, category, row);
    owner_.push_back(HostProcess(event));
  }
  if (event.phase != "X") open_[OpenKey(event)].push_back(table_.size());
  table_.Append(row);
}

void KinetoEvents::CloseRow(const ChromeEvent& event) {
  const auto found = open_.find(OpenKey(event));
  const auto end = MicrosecondsToNs(event.begin_us);
  if (found == open_.end() || found->second.empty() || !end) {
    log_->Count("end_without_begin", 1, trace::Severity::kError);
    return;
  }
  const std::size_t row = found->second.back();
  found->second.pop_back();
  table_.flags[row] &= static_cast<uint16_t>(~trace::kFlagOpen);
  if (*end < table_.begin_ns[row]) {
    log_->Count("negative_duration_as_zero", 1, trace::Severity::kError);
  } else {
    table_.end_ns[row] = *end;
  }
}

std::size_t KinetoEvents::MainProcess() const {
  const auto most = std::max_element(process_events_.begin(), process_events_.end());
  return static_cast<std::size_t>(most - process_events_.begin());
}

void KinetoEvents::AssignOwners(std::size_t main) {
  const auto main_owner = static_cast<int32_t>(main);
  std::unordered_map<uint64_t, int32_t> launcher;
  if (processes_.size() > 1) {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (table_.layer[i] == trace::Layer::kHostApi && table_.correlation[i] != 0) {
        launcher.emplace(table_.correlation[i], owner_[i]);
      }
    }
  }
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (owner_[i] != kUnknownOwner) continue;
    const auto found = launcher.find(table_.correlation[i]);
    const bool launched =
        device_[i] != kHost && found != launcher.end() && found->second != kUnknownOwner;
    owner_[i] = launched ? found->second : main_owner;
    if (!launched && device_[i] != kHost && processes_.size() > 1)
      log_->Count("device_record_given_to_main_process");
  }
}

void KinetoEvents::NumberTracks() {
  std::vector<TrackNumbers> numbers(processes_.size());
  for (std::size_t i = 0; i < table_.size(); ++i) {
    TrackNumbers& process = numbers[static_cast<std::size_t>(owner_[i])];
    table_.track[i] =
        device_[i] == kHost ? process.Thread(thread_[i]) : process.Stream(device_[i], thread_[i]);
  }
  for (const TrackNumbers& process : numbers)
    log_->Count("track_renumbered", process.renumbered(), trace::Severity::kInfo, "tracks");
}

void KinetoEvents::CloseOpenRows() {
  const auto latest = std::max_element(table_.end_ns.begin(), table_.end_ns.end());
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if ((table_.flags[i] & trace::kFlagOpen) == 0) continue;
    table_.end_ns[i] = *latest;
    log_->Count("open_ended");
  }
}

/// A kernel of NCCL was launched inside the host range of its collective: that range is the same
/// collective, counted once, and knows what the kernel's record may lack.
void KinetoEvents::JoinCollectives() {
  using Place = std::pair<int32_t, int64_t>;  // process, thread
  std::map<Place, std::vector<uint32_t>> ranges;
  std::map<std::pair<int32_t, uint64_t>, std::vector<uint32_t>> kernels;
  for (uint32_t i = 0; i < table_.size(); ++i) {
    if (table_.layer[i] != trace::Layer::kComm) continue;
    if (device_[i] == kHost) ranges[{owner_[i], thread_[i]}].push_back(i);
    if (device_[i] != kHost && table_.correlation[i] != 0)
      kernels[{owner_[i], table_.correlation[i]}].push_back(i);
  }
  if (ranges.empty() || kernels.empty()) return;
  for (auto& [place, rows] : ranges) {
    std::sort(rows.begin(), rows.end(),
              [&](uint32_t a, uint32_t b) { return table_.begin_ns[a] < table_.begin_ns[b]; });
  }
  for (uint32_t launch = 0; launch < table_.size(); ++launch) {
    if (table_.layer[launch] != trace::Layer::kHostApi || table_.correlation[launch] == 0) continue;
    const auto launched = kernels.find({owner_[launch], table_.correlation[launch]});
    const auto near = ranges.find({owner_[launch], thread_[launch]});
    if (launched == kernels.end() || near == ranges.end()) continue;
    auto after =
        std::upper_bound(near->second.begin(), near->second.end(), table_.begin_ns[launch],
                         [&](int64_t time, uint32_t row) { return time < table_.begin_ns[row]; });
    if (after == near->second.begin()) continue;
    const uint32_t range = *--after;
    if (table_.end_ns[range] < table_.begin_ns[launch]) continue;
    table_.flags[range] |= trace::kFlagJoined;
    for (const uint32_t kernel : launched->second) {
      table_.kind[kernel] = table_.kind[range];
      if (table_.bytes[kernel] < 0) table_.bytes[kernel] = table_.bytes[range];
      if (table_.sequence[kernel] < 0) table_.sequence[kernel] = table_.sequence[range];
      if (table_.comm[kernel] == kNoString) table_.comm[kernel] = table_.comm[range];
      if (table_.peer[kernel] < 0) table_.peer[kernel] = table_.peer[range];
    }
  }
}

std::vector<ImportedProcess> KinetoEvents::Emit(std::optional<int32_t> rank, std::size_t main,
                                                TraceSink& sink) {
  std::vector<StringId> ids(names_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] =
        sink.Intern(CleanName(names_.View(StringId{static_cast<uint32_t>(i)}), options_, *log_));
  }
  for (StringId& name : table_.name) name = ids[Index(name)];
  for (StringId& comm : table_.comm) comm = comm == kNoString ? comm : ids[Index(comm)];
  std::vector<std::vector<uint32_t>> rows(processes_.size());
  if (processes_.size() > 1) {
    for (uint32_t i = 0; i < table_.size(); ++i)
      rows[static_cast<std::size_t>(owner_[i])].push_back(i);
  }
  std::vector<std::size_t> order(processes_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[0], order[main]);
  std::vector<ImportedProcess> written;
  for (const std::size_t process : order) {
    trace::ProcessInfo who{.pid = static_cast<uint32_t>(processes_[process])};
    if (process == main && rank) who.rank = RankId{*rank};
    if (const auto named = process_names_.find(processes_[process]);
        named != process_names_.end()) {
      who.comm = CleanName(named->second, options_, *log_);
    }
    written.push_back({sink.AddProcess(who), who});
    sink.Append(written.back().index,
                processes_.size() == 1 ? table_ : SelectRows(table_, rows[process]));
  }
  return written;
}

std::vector<ImportedProcess> KinetoEvents::Finish(const KinetoFileInfo& info,
                                                  std::optional<int32_t> rank, TraceSink& sink) {
  for (const KnownCategory& known : categories_) log_->CountSource(known.name, known.count);
  if (table_.size() == 0) return {};
  if (processes_.empty()) {
    processes_.push_back(0);
    process_events_.push_back(0);
  }
  const std::size_t main = MainProcess();
  AssignOwners(main);
  NumberTracks();
  CloseOpenRows();
  JoinCollectives();
  if (info.base_time_ns != 0) {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if ((table_.flags[i] & trace::kFlagNoTiming) != 0) continue;
      table_.begin_ns[i] += info.base_time_ns;
      table_.end_ns[i] += info.base_time_ns;
    }
  }
  return Emit(rank, main, sink);
}

}  // namespace teller::interop
