#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/core/interrupt.h"
#include "src/dataset/steps_file.h"
#include "src/interop/export.h"
#include "src/interop/output_file.h"
#include "src/interop/protobuf_writer.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/collectives.h"
#include "src/trace/trace_file.h"

namespace teller::interop {
namespace {

// Field numbers of Perfetto's trace format (protos/perfetto/trace/*.proto); a test parses our files
// with the messages that Perfetto publishes.
namespace packet {
constexpr uint32_t kPacket = 1, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
                   kInternedData = 12, kSequenceFlags = 13, kTrackDescriptor = 60;
}
namespace track_event {
constexpr uint32_t kCategoryIds = 3, kAnnotations = 4, kType = 9, kNameId = 10, kTrack = 11,
                   kFlowIds = 47, kTerminatingFlowIds = 48;
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
}  // namespace track_event
namespace track {
constexpr uint32_t kId = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5;
}
namespace interned {
constexpr uint32_t kCategories = 1, kNames = 2, kId = 1, kText = 2;
}
constexpr uint32_t kProcessPid = 1, kProcessName = 6;
constexpr uint32_t kThreadPid = 1, kThreadId = 2, kThreadName = 5;
constexpr uint32_t kAnnotationInteger = 4, kAnnotationText = 6, kAnnotationName = 10;
constexpr uint64_t kSequence = 1;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;

/// Flow arrows that begin and end at an event.
struct Flows {
  std::vector<uint64_t> ids;
  std::vector<uint64_t> ending;
};

struct Slice {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::size_t row = 0;
};

class PerfettoExport {
 public:
  PerfettoExport(const std::filesystem::path& trace, const std::filesystem::path& output)
      : reader_(trace), file_(output) {}

  ExportReport Run(const std::filesystem::path& steps);

 private:
  void Align();
  void MatchRanks(const std::vector<reconstruct::CollectiveRecord>& records);
  void WriteProcess(int process);
  void WriteTrack(int process, std::pair<bool, uint32_t> key, const trace::EventTable& events,
                  std::vector<Slice>& slices, const std::unordered_map<std::size_t, Flows>& flows);
  std::unordered_map<std::size_t, Flows> FlowsOf(int process, const trace::EventTable& events);
  uint64_t DescribeProcess(int process);
  uint64_t DescribeTrack(int process, std::pair<bool, uint32_t> key, std::size_t lane);
  void WriteBegin(uint64_t track, const trace::EventTable& events, const Slice& slice,
                  const Flows* flows);
  void WriteEnd(uint64_t track, int64_t time_ns);
  void WriteLabels(const dataset::StepsFile& steps);
  void WritePacket(ProtobufWriter& body);
  uint64_t NameId(std::string_view name, ProtobufWriter& interned_data);
  uint64_t CategoryId(trace::Layer layer, ProtobufWriter& interned_data);
  uint64_t Time(int process, int64_t time_ns) const;

  trace::TraceReader reader_;
  OutputFile file_;
  ExportReport report_;
  reconstruct::Alignment alignment_;
  int64_t origin_ns_ = 0;  ///< subtracted where times are below zero
  std::map<std::pair<int, std::size_t>, Flows> rank_flows_;
  std::unordered_map<std::string, uint64_t> names_;
  std::map<trace::Layer, uint64_t> categories_;
  uint64_t next_track_ = 1;
  uint64_t next_flow_ = 1;
  uint64_t process_track_ = 0;  ///< of the process being written
  bool first_packet_ = true;
};

uint64_t PerfettoExport::Time(int process, int64_t time_ns) const {
  const int64_t base_ns = alignment_.processes[static_cast<std::size_t>(process)].ToBase(time_ns);
  return static_cast<uint64_t>(base_ns - origin_ns_);
}

void PerfettoExport::Align() {
  std::vector<reconstruct::CollectiveRecord> records;
  std::vector<int64_t> first_ns;
  for (int i = 0; i < static_cast<int>(reader_.processes().size()); ++i) {
    const trace::EventTable events = reader_.ReadEvents(i);
    const auto found = reconstruct::CollectivesOf(i, events);
    records.insert(records.end(), found.begin(), found.end());
    int64_t first = 0;
    for (std::size_t row = 0; row < events.size(); ++row) {
      if ((events.flags[row] & trace::kFlagNoTiming) == 0)
        first = std::min(first, events.begin_ns[row]);
    }
    first_ns.push_back(first);
  }
  alignment_ = reconstruct::AlignClocks(reader_.processes(), reader_.ReadClock(),
                                        reader_.ReadProbes(), records, reader_.strings());
  for (std::size_t i = 0; i < first_ns.size(); ++i) {
    origin_ns_ = std::min(origin_ns_, alignment_.processes[i].ToBase(first_ns[i]));
  }
  MatchRanks(records);
}

/// One flow through the members of each matched collective, in the order of their begins.
void PerfettoExport::MatchRanks(const std::vector<reconstruct::CollectiveRecord>& records) {
  for (reconstruct::MatchedCollective& matched : reconstruct::MatchCollectives(records)) {
    std::sort(matched.records.begin(), matched.records.end(), [&](std::size_t a, std::size_t b) {
      return Time(records[a].process, records[a].begin_ns) <
             Time(records[b].process, records[b].begin_ns);
    });
    const uint64_t flow = next_flow_++;
    for (const std::size_t member : matched.records) {
      Flows& flows = rank_flows_[{records[member].process, records[member].event}];
      (member == matched.records.back() ? flows.ending : flows.ids).push_back(flow);
    }
  }
}

void PerfettoExport::WritePacket(ProtobufWriter& body) {
  body.Varint(packet::kSequenceId, kSequence);
  body.Varint(packet::kSequenceFlags, first_packet_ ? kStateCleared : kNeedsState);
  first_packet_ = false;
  ProtobufWriter framed;
  framed.Message(packet::kPacket, body);
  file_.Write(framed.data());
}

uint64_t PerfettoExport::NameId(std::string_view name, ProtobufWriter& interned_data) {
  const auto [found, is_new] = names_.try_emplace(std::string(name), names_.size() + 1);
  if (is_new) {
    ProtobufWriter entry;
    entry.Varint(interned::kId, found->second).Bytes(interned::kText, name);
    interned_data.Message(interned::kNames, entry);
  }
  return found->second;
}

uint64_t PerfettoExport::CategoryId(trace::Layer layer, ProtobufWriter& interned_data) {
  const auto [found, is_new] = categories_.try_emplace(layer, categories_.size() + 1);
  if (is_new) {
    ProtobufWriter entry;
    entry.Varint(interned::kId, found->second).Bytes(interned::kText, trace::LayerName(layer));
    interned_data.Message(interned::kCategories, entry);
  }
  return found->second;
}

uint64_t PerfettoExport::DescribeProcess(int process) {
  const trace::ProcessInfo& info = reader_.processes()[static_cast<std::size_t>(process)];
  std::string name = info.rank == kNoRank ? std::string("process")
                                          : fmt::format("rank {}", static_cast<int>(info.rank));
  if (!info.comm.empty()) name += " " + info.comm;
  if (!info.host.empty()) name += " on " + info.host;
  name += fmt::format(" (pid {})", info.pid);
  // Ranks on different hosts may share a pid, which Perfetto would take for one process.
  ProtobufWriter descriptor;
  descriptor.Varint(kProcessPid, static_cast<uint64_t>(process) + 1).Bytes(kProcessName, name);
  const uint64_t id = next_track_++;
  ProtobufWriter described;
  described.Varint(track::kId, id).Message(track::kProcess, descriptor);
  ProtobufWriter body;
  body.Message(packet::kTrackDescriptor, described);
  WritePacket(body);
  return id;
}

uint64_t PerfettoExport::DescribeTrack(int process, std::pair<bool, uint32_t> key,
                                       std::size_t lane) {
  const uint64_t id = next_track_++;
  const auto [on_device, number] = key;
  std::string name = fmt::format("{} {}", on_device ? "stream" : "thread", number);
  if (lane > 0) name += fmt::format(" (overlap {})", lane);
  ProtobufWriter described;
  described.Varint(track::kId, id);
  if (!on_device && lane == 0) {
    ProtobufWriter thread;
    // Perfetto keeps threads by their number alone.
    thread.Varint(kThreadPid, static_cast<uint64_t>(process) + 1)
        .Varint(kThreadId, (static_cast<uint64_t>(process) + 1) << 24 | (next_track_ & 0xffffff))
        .Bytes(kThreadName, name);
    described.Message(track::kThread, thread);
  } else {
    described.Bytes(track::kName, name).Varint(track::kParent, process_track_);
  }
  ProtobufWriter body;
  body.Message(packet::kTrackDescriptor, described);
  WritePacket(body);
  return id;
}

std::unordered_map<std::size_t, Flows> PerfettoExport::FlowsOf(int process,
                                                               const trace::EventTable& events) {
  std::unordered_map<std::size_t, Flows> flows;
  std::unordered_map<uint64_t, std::size_t> launches;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.layer[row] == trace::Layer::kHostApi && events.correlation[row] != 0) {
      launches.emplace(events.correlation[row], row);
    }
    if (const auto found = rank_flows_.find({process, row}); found != rank_flows_.end())
      flows[row] = found->second;
  }
  for (std::size_t row = 0; row < events.size(); ++row) {
    if ((events.flags[row] & trace::kFlagOnDevice) == 0 || events.correlation[row] == 0) continue;
    const auto launch = launches.find(events.correlation[row]);
    if (launch == launches.end()) continue;
    const bool untimed =
        ((events.flags[row] | events.flags[launch->second]) & trace::kFlagNoTiming) != 0;
    if (untimed || events.begin_ns[row] < events.begin_ns[launch->second]) {
      ++report_.losses["flow_backwards"];  // an arrow cannot go back in time
      continue;
    }
    flows[launch->second].ids.push_back(next_flow_);
    flows[row].ending.push_back(next_flow_++);
  }
  return flows;
}

void PerfettoExport::WriteBegin(uint64_t track, const trace::EventTable& events, const Slice& slice,
                                const Flows* flows) {
  ProtobufWriter interned_data;
  ProtobufWriter event;
  const std::size_t row = slice.row;
  const StringInterner& strings = reader_.strings();
  const auto text = [&](StringId id) {
    return id == kNoString ? std::string_view("(no name)") : strings.View(id);
  };
  const bool is_mark = events.kind[row] == trace::Kind::kMark;
  event.Varint(track_event::kType, is_mark ? track_event::kInstant : track_event::kBegin)
      .Varint(track_event::kTrack, track)
      .Varint(track_event::kNameId, NameId(text(events.name[row]), interned_data))
      .Varint(track_event::kCategoryIds, CategoryId(events.layer[row], interned_data));
  const auto annotate = [&](std::string_view name, int64_t value) {
    if (value < 0) return;
    ProtobufWriter annotation;
    annotation.Varint(kAnnotationInteger, static_cast<uint64_t>(value))
        .Bytes(kAnnotationName, name);
    event.Message(track_event::kAnnotations, annotation);
  };
  annotate("bytes", events.bytes[row]);
  annotate("sequence", events.sequence[row]);
  annotate("peer", events.peer[row]);
  const auto annotate_text = [&](std::string_view name, StringId id) {
    if (id == kNoString) return;
    ProtobufWriter annotation;
    annotation.Bytes(kAnnotationText, text(id)).Bytes(kAnnotationName, name);
    event.Message(track_event::kAnnotations, annotation);
  };
  annotate_text("communicator", events.comm[row]);
  annotate_text("requests", events.request[row]);
  if (flows != nullptr) {
    for (const uint64_t id : flows->ids) event.Fixed64(track_event::kFlowIds, id);
    for (const uint64_t id : flows->ending) event.Fixed64(track_event::kTerminatingFlowIds, id);
  }
  ProtobufWriter body;
  body.Varint(packet::kTimestamp, static_cast<uint64_t>(slice.begin_ns));
  if (!interned_data.data().empty()) body.Message(packet::kInternedData, interned_data);
  body.Message(packet::kTrackEvent, event);
  WritePacket(body);
  ++report_.written_events;
}

void PerfettoExport::WriteEnd(uint64_t track, int64_t time_ns) {
  ProtobufWriter event;
  event.Varint(track_event::kType, track_event::kEnd).Varint(track_event::kTrack, track);
  ProtobufWriter body;
  body.Varint(packet::kTimestamp, static_cast<uint64_t>(time_ns))
      .Message(packet::kTrackEvent, event);
  WritePacket(body);
}

/// Events of one thread or stream. Slices of a Perfetto track must nest; what only overlaps goes to
/// a further lane.
void PerfettoExport::WriteTrack(int process, std::pair<bool, uint32_t> key,
                                const trace::EventTable& events, std::vector<Slice>& slices,
                                const std::unordered_map<std::size_t, Flows>& flows) {
  struct Lane {
    uint64_t track;
    std::vector<int64_t> open_ends;
  };
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.row < b.row;
  });
  std::vector<Lane> lanes;
  const auto close_until = [&](Lane& lane, int64_t time_ns) {
    while (!lane.open_ends.empty() && lane.open_ends.back() <= time_ns) {
      WriteEnd(lane.track, lane.open_ends.back());
      lane.open_ends.pop_back();
    }
  };
  for (const Slice& slice : slices) {
    std::size_t chosen = 0;
    for (; chosen < lanes.size(); ++chosen) {
      close_until(lanes[chosen], slice.begin_ns);
      if (lanes[chosen].open_ends.empty() || lanes[chosen].open_ends.back() >= slice.end_ns) break;
    }
    if (chosen == lanes.size()) lanes.push_back({DescribeTrack(process, key, lanes.size()), {}});
    const auto found = flows.find(slice.row);
    WriteBegin(lanes[chosen].track, events, slice, found == flows.end() ? nullptr : &found->second);
    if (events.kind[slice.row] != trace::Kind::kMark)
      lanes[chosen].open_ends.push_back(slice.end_ns);
  }
  for (Lane& lane : lanes) close_until(lane, std::numeric_limits<int64_t>::max());
}

void PerfettoExport::WriteProcess(int process) {
  const trace::EventTable events = reader_.ReadEvents(process);
  process_track_ = DescribeProcess(process);
  const std::unordered_map<std::size_t, Flows> flows = FlowsOf(process, events);
  std::map<std::pair<bool, uint32_t>, std::vector<Slice>> tracks;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if ((events.flags[row] & trace::kFlagNoTiming) != 0) {
      ++report_.losses["no_timing"];
      continue;
    }
    const bool on_device = (events.flags[row] & trace::kFlagOnDevice) != 0;
    const auto begin = static_cast<int64_t>(Time(process, events.begin_ns[row]));
    const auto end = static_cast<int64_t>(Time(process, events.end_ns[row]));
    tracks[{on_device, events.track[row]}].push_back({begin, std::max(begin, end), row});
  }
  for (auto& [key, slices] : tracks) {
    ThrowIfInterrupted();
    WriteTrack(process, key, events, slices, flows);
  }
}

/// One slice a step, named by its label; the times of a steps file are on the aligned clock.
void PerfettoExport::WriteLabels(const dataset::StepsFile& steps) {
  const uint64_t id = next_track_++;
  ProtobufWriter described;
  described.Varint(track::kId, id).Bytes(track::kName, "step labels");
  ProtobufWriter body;
  body.Message(packet::kTrackDescriptor, described);
  WritePacket(body);
  for (std::size_t i = 0; i < steps.run.steps.size(); ++i) {
    const reconstruct::StepForest& step = steps.run.steps[i];
    const dataset::StepLabel& label = steps.labels[i];
    constexpr std::string_view kStatus[] = {"negative", "positive", "grey"};
    std::string name(kStatus[static_cast<std::size_t>(label.status)]);
    if (!label.kind.empty()) name += " " + label.kind;
    ProtobufWriter interned_data;
    ProtobufWriter event;
    event.Varint(track_event::kType, track_event::kBegin)
        .Varint(track_event::kTrack, id)
        .Varint(track_event::kNameId, NameId(name, interned_data));
    ProtobufWriter annotation;
    annotation.Varint(kAnnotationInteger, static_cast<uint64_t>(step.engine_step))
        .Bytes(kAnnotationName, "step");
    event.Message(track_event::kAnnotations, annotation);
    ProtobufWriter begin;
    begin.Varint(packet::kTimestamp, static_cast<uint64_t>(step.begin_ns - origin_ns_));
    if (!interned_data.data().empty()) begin.Message(packet::kInternedData, interned_data);
    begin.Message(packet::kTrackEvent, event);
    WritePacket(begin);
    WriteEnd(id, std::max(step.begin_ns, step.end_ns) - origin_ns_);
  }
}

ExportReport PerfettoExport::Run(const std::filesystem::path& steps) {
  Align();
  if (!alignment_.aligned) report_.losses["clocks_not_aligned"] = 1;
  for (int i = 0; i < static_cast<int>(reader_.processes().size()); ++i) WriteProcess(i);
  if (!steps.empty()) WriteLabels(dataset::ReadSteps(steps));
  file_.Close();
  return report_;
}

}  // namespace

ExportReport ExportPerfetto(const std::filesystem::path& trace, const std::filesystem::path& steps,
                            const std::filesystem::path& output) {
  return PerfettoExport(trace, output).Run(steps);
}

}  // namespace teller::interop
