#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/core/interrupt.h"
#include "src/dataset/steps_file.h"
#include "src/interop/export.h"
#include "src/interop/output_file.h"
#include "src/trace/trace_file.h"

namespace teller::interop {
namespace {

using nlohmann::json;
using trace::Layer;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// The host events of one thread, in the order of a walk, with the event around each.
struct Nesting {
  std::vector<std::size_t> rows;
  std::unordered_map<std::size_t, std::size_t> parent;  ///< row -> row
};

Nesting Nest(const trace::EventTable& events, std::vector<std::size_t> rows) {
  std::sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    if (events.begin_ns[a] != events.begin_ns[b]) return events.begin_ns[a] < events.begin_ns[b];
    if (events.end_ns[a] != events.end_ns[b]) return events.end_ns[a] > events.end_ns[b];
    return events.layer[a] != events.layer[b] ? events.layer[a] < events.layer[b] : a < b;
  });
  Nesting nesting;
  std::vector<std::size_t> open;
  for (const std::size_t row : rows) {
    while (!open.empty() && events.end_ns[open.back()] < events.end_ns[row]) open.pop_back();
    nesting.parent[row] = open.empty() ? kNone : open.back();
    open.push_back(row);
  }
  nesting.rows = std::move(rows);
  return nesting;
}

/// Operators of the layout: what the backend layer and collectives on the host are to us.
bool IsOperator(const trace::EventTable& events, std::size_t row) {
  return events.layer[row] == Layer::kBackend || events.layer[row] == Layer::kComm;
}

/// 'cuLaunchKernel', not 'cudaLaunchKernel'.
bool IsDriverCall(std::string_view name) {
  return name.starts_with("cu") && name.size() > 2 &&
         std::isupper(static_cast<unsigned char>(name[2])) != 0;
}

/// Where a host event stands in the layout.
struct Place {
  std::size_t step = kNone;      ///< outermost engine range
  std::size_t frontend = kNone;  ///< outermost operator
  std::size_t backend = kNone;   ///< innermost operator
};

/// Device items by the correlation of their launch.
using DeviceItems = std::unordered_map<uint64_t, std::vector<std::size_t>>;
/// Calls by the backend operator around them; kNone: the frontend operator holds them itself.
using BackendCalls = std::map<std::size_t, std::vector<std::size_t>>;

class PublishedExport {
 public:
  PublishedExport(const std::filesystem::path& trace, const std::filesystem::path& output)
      : reader_(trace), output_(output) {}

  ExportReport Run(const std::filesystem::path& steps);

 private:
  void WriteProcess(int process, OutputFile& file);
  void WriteThread(int process, const trace::EventTable& events, const Nesting& nesting,
                   const DeviceItems& device, OutputFile& file);
  Place PlaceOf(const trace::EventTable& events, const Nesting& nesting, std::size_t row) const;
  json Operator(const trace::EventTable& events, std::size_t row) const;
  json Frontend(const trace::EventTable& events, std::size_t row, const BackendCalls& backends,
                const DeviceItems& device);
  json Call(const trace::EventTable& events, std::size_t row, const DeviceItems& device);
  json Step(int process, const trace::EventTable& events, std::size_t row) const;
  void WriteLogs(const std::filesystem::path& folder);
  void WriteAnnotation(const std::filesystem::path& folder, const std::filesystem::path& steps);
  void Lose(const char* reason, int64_t count = 1) { report_.losses[reason] += count; }
  std::string Name(StringId id) const {
    return id == kNoString ? std::string() : std::string(reader_.strings().View(id));
  }

  trace::TraceReader reader_;
  std::filesystem::path output_;
  ExportReport report_;
  int64_t written_device_items_ = 0;
  bool first_step_ = true;
};

Place PublishedExport::PlaceOf(const trace::EventTable& events, const Nesting& nesting,
                               std::size_t row) const {
  Place place;
  std::size_t frontend = kNone;
  std::size_t backend = kNone;
  for (std::size_t at = row; at != kNone; at = nesting.parent.at(at)) {
    if (IsOperator(events, at)) {
      frontend = at;
      if (backend == kNone) backend = at;
    } else if (events.layer[at] == Layer::kEngine) {
      place = {at, frontend, backend};  // an operator around the step is outside of it
    }
  }
  return place;
}

json PublishedExport::Operator(const trace::EventTable& events, std::size_t row) const {
  return {{"op_name", Name(events.name[row])},
          {"start", events.begin_ns[row]},
          {"end", events.end_ns[row]}};
}

json PublishedExport::Call(const trace::EventTable& events, std::size_t row,
                           const DeviceItems& device) {
  json call = {{"name", Name(events.name[row])},
               {"start", events.begin_ns[row]},
               {"end", events.end_ns[row]}};
  call["kernels"] = json::array();
  if (events.correlation[row] == 0) return call;
  call["correlation"] = events.correlation[row];
  const auto launched = device.find(events.correlation[row]);
  if (launched == device.end()) return call;
  for (const std::size_t item : launched->second) {
    json kernel = {{"name", Name(events.name[item])},
                   {"gpu_start", events.begin_ns[item]},
                   {"duration", events.end_ns[item] - events.begin_ns[item]},
                   {"stream", events.track[item]}};
    if (events.bytes[item] >= 0) kernel["bytes"] = events.bytes[item];
    call["kernels"].push_back(std::move(kernel));
    ++report_.written_events;
    ++written_device_items_;
  }
  return call;
}

json PublishedExport::Step(int process, const trace::EventTable& events, std::size_t row) const {
  const trace::ProcessInfo& info = reader_.processes()[static_cast<std::size_t>(process)];
  json step = {{"step_name", Name(events.name[row])},
               {"start", events.begin_ns[row]},
               {"end", events.end_ns[row]},
               {"pid", info.pid},
               {"tid", events.track[row]},
               {"torch_frontend_ops", json::array()}};
  if (info.rank != kNoRank) step["rank"] = static_cast<int32_t>(info.rank);
  return step;
}

json PublishedExport::Frontend(const trace::EventTable& events, std::size_t row,
                               const BackendCalls& backends, const DeviceItems& device) {
  json frontend = Operator(events, row);
  ++report_.written_events;
  frontend["torch_backend_ops"] = json::array();
  for (const auto& [backend_row, calls] : backends) {
    json backend = Operator(events, backend_row == kNone ? row : backend_row);
    if (backend_row == kNone) {
      backend["teller_synthetic"] = true;
    } else {
      ++report_.written_events;
    }
    backend["runtime_calls"] = json::array();
    backend["driver_calls"] = json::array();
    for (const std::size_t call : calls) {
      const char* key = IsDriverCall(Name(events.name[call])) ? "driver_calls" : "runtime_calls";
      backend[key].push_back(Call(events, call, device));
      ++report_.written_events;
    }
    frontend["torch_backend_ops"].push_back(std::move(backend));
  }
  return frontend;
}

void PublishedExport::WriteThread(int process, const trace::EventTable& events,
                                  const Nesting& nesting, const DeviceItems& device,
                                  OutputFile& file) {
  std::set<std::size_t> holds_operators;
  std::set<std::size_t> holds_calls;
  for (const std::size_t row : nesting.rows) {
    const std::size_t around = nesting.parent.at(row);
    if (around == kNone) continue;
    const std::size_t holder = PlaceOf(events, nesting, around).backend;
    if (IsOperator(events, row)) holds_operators.insert(holder);
    if (events.layer[row] == Layer::kHostApi) holds_calls.insert(holder);
  }
  std::map<std::size_t, std::map<std::size_t, BackendCalls>>
      steps;  // by step, by frontend operator
  for (const std::size_t row : nesting.rows) {
    const Place place = PlaceOf(events, nesting, row);
    if (place.step == kNone) {
      Lose("outside_steps");
      continue;
    }
    auto& step = steps[place.step];
    if (row == place.step) continue;
    if (events.layer[row] == Layer::kEngine) {
      Lose("nested_range");
    } else if (IsOperator(events, row)) {
      BackendCalls& frontend = step[place.frontend];
      if (row == place.frontend) continue;
      if (holds_operators.contains(row) && !holds_calls.contains(row)) {
        Lose("operator_level");
      } else {
        frontend[row];
      }
    } else if (place.backend == kNone) {
      Lose("call_without_operator");
    } else {
      step[place.frontend][place.backend == place.frontend ? kNone : place.backend].push_back(row);
    }
  }
  for (const auto& [step_row, frontends] : steps) {
    json step = Step(process, events, step_row);
    ++report_.written_events;
    for (const auto& [frontend_row, backends] : frontends) {
      step["torch_frontend_ops"].push_back(Frontend(events, frontend_row, backends, device));
    }
    file.Write(first_step_ ? "\n" : ",\n");
    first_step_ = false;
    file.Write(step.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

void PublishedExport::WriteProcess(int process, OutputFile& file) {
  const trace::EventTable events = reader_.ReadEvents(process);
  std::map<uint32_t, std::vector<std::size_t>> threads;
  DeviceItems device;
  int64_t device_items = 0;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const bool on_device = (events.flags[row] & trace::kFlagOnDevice) != 0;
    if ((events.flags[row] & trace::kFlagNoTiming) != 0) {
      Lose("no_timing");
    } else if (on_device) {
      device[events.correlation[row]].push_back(row);
      ++device_items;
    } else if (events.kind[row] == trace::Kind::kMark) {
      Lose("mark");
    } else {
      threads[events.track[row]].push_back(row);
    }
  }
  const int64_t before = written_device_items_;
  for (auto& [thread, rows] : threads) {
    ThrowIfInterrupted();
    WriteThread(process, events, Nest(events, std::move(rows)), device, file);
  }
  const int64_t lost = device_items - (written_device_items_ - before);
  if (lost > 0) Lose("device_item_without_kept_launch", lost);
}

void PublishedExport::WriteLogs(const std::filesystem::path& folder) {
  OutputFile file(folder / "log.txt");
  for (const trace::LogLine& line : reader_.ReadLogs()) file.Write(line.text + "\n");
  file.Close();
}

void PublishedExport::WriteAnnotation(const std::filesystem::path& folder,
                                      const std::filesystem::path& steps) {
  json annotation = {{"run_id", reader_.meta().run_id}, {"steps", json::array()}};
  if (!steps.empty()) {
    constexpr const char* kStatus[] = {"negative", "positive", "grey"};
    constexpr const char* kView[] = {"none", "horizontal", "vertical"};
    const dataset::StepsFile read = dataset::ReadSteps(steps);
    for (std::size_t i = 0; i < read.run.steps.size(); ++i) {
      const dataset::StepLabel& label = read.labels[i];
      annotation["steps"].push_back({{"step", read.run.steps[i].engine_step},
                                     {"label", kStatus[static_cast<std::size_t>(label.status)]},
                                     {"kind", label.kind},
                                     {"family", label.family},
                                     {"view", kView[static_cast<std::size_t>(label.view)]},
                                     {"rank", static_cast<int32_t>(label.culprit_rank)},
                                     {"operator", label.culprit_symbol}});
    }
  }
  OutputFile file(folder / "annotation.json");
  file.Write(annotation.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  file.Close();
}

/// A folder name out of text that a file states.
std::string FolderName(std::string_view text, std::string_view otherwise) {
  std::string name;
  for (const char c : text.substr(0, 100)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    name += plain ? c : '_';
  }
  return name.empty() ? std::string(otherwise) : name;
}

ExportReport PublishedExport::Run(const std::filesystem::path& steps) {
  const std::filesystem::path folder = output_ / FolderName(reader_.meta().workload, "unknown") /
                                       FolderName(reader_.meta().run_id, "run");
  std::filesystem::create_directories(folder);
  OutputFile file(folder / "trace.json");
  file.Write("{\"steps\":[");
  for (int i = 0; i < static_cast<int>(reader_.processes().size()); ++i) WriteProcess(i, file);
  file.Write("\n]}\n");
  file.Close();
  WriteLogs(folder);
  WriteAnnotation(folder, steps);
  return report_;
}

}  // namespace

ExportReport ExportPublished(const std::filesystem::path& trace, const std::filesystem::path& steps,
                             const std::filesystem::path& output) {
  return PublishedExport(trace, output).Run(steps);
}

}  // namespace teller::interop
