#include "src/collect/process_events.h"

#include <cxxabi.h>

#include <cstdlib>
#include <functional>
#include <memory>

namespace teller::collect {

namespace {

constexpr std::size_t kBlockRecords = 65536;

/// CUPTI names kernels as the linker does; people read 'add(float*)' for '_Z3addPf'.
std::string Demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
  return plain == nullptr ? name : plain.get();
}

/// All bits of a device graph's node.
uint64_t GraphNode(const TellerRecord& record) {
  uint64_t node = record.graph_node;
  for (int i = 0; i < 3; ++i) node |= uint64_t{record.graph[i]} << (32 + 8 * i);
  return node;
}

class Converter {
 public:
  Converter(const std::vector<std::string>& names, const TickClock& clock,
            trace::TraceWriter& writer)
      : names_(names), clock_(clock), writer_(writer), ids_(names.size(), kNoString) {}

  bool IsValid(const TellerRecord& record) const {
    return record.layer < trace::kLayerCount && record.kind < trace::kKindCount &&
           record.source < trace::kSourceCount && record.name < names_.size() &&
           (record.comm == UINT32_MAX || record.comm < names_.size());
  }

  int64_t TimeNs(const TellerRecord& record, uint64_t stamp) const {
    return (record.flags & TELLER_RECORD_TICKS) != 0 ? clock_.ToNs(stamp)
                                                     : static_cast<int64_t>(stamp);
  }

  CommRecord ToComm(uint64_t index, const TellerRecord& record) const {
    return {.index = index,
            .begin_ns = TimeNs(record, record.begin),
            .end_ns = TimeNs(record, record.end),
            .name = names_[record.name],
            .on_device = (record.flags & TELLER_RECORD_ON_DEVICE) != 0,
            .comm = record.comm == UINT32_MAX ? std::string() : names_[record.comm],
            .sequence = record.sequence};
  }

  trace::Event ToEvent(const TellerRecord& record) {
    trace::Event event;
    event.begin_ns = TimeNs(record, record.begin);
    event.end_ns = TimeNs(record, record.end);
    event.name = NameId(record.name);
    event.layer = static_cast<trace::Layer>(record.layer);
    event.kind = static_cast<trace::Kind>(record.kind);
    event.track = record.track;
    event.correlation = record.correlation;
    event.graph_node = GraphNode(record);
    const StringId text = record.comm == UINT32_MAX ? kNoString : NameId(record.comm);
    (event.layer == trace::Layer::kBackend ? event.request : event.comm) = text;
    event.sequence = record.sequence;
    event.peer = record.peer;
    event.bytes = record.bytes;
    event.source = static_cast<trace::Source>(record.source);
    event.flags =
        record.flags & (trace::kFlagOpen | trace::kFlagOtherThreadEnd | trace::kFlagOnDevice);
    return event;
  }

 private:
  StringId NameId(uint32_t name) {
    if (ids_[name] == kNoString) ids_[name] = writer_.Intern(Demangled(names_[name]));
    return ids_[name];
  }

  const std::vector<std::string>& names_;
  const TickClock& clock_;
  trace::TraceWriter& writer_;
  std::vector<StringId> ids_;
};

void ForEachBlock(Spool& spool,
                  const std::function<void(uint64_t, const std::vector<TellerRecord>&)>& visit) {
  for (uint64_t first = 0; first < spool.size(); first += kBlockRecords)
    visit(first, spool.Read(first, kBlockRecords));
}

std::map<uint64_t, CommPatch> JoinSpooled(Spool& spool, const Converter& converter) {
  std::vector<CommRecord> comm;
  ForEachBlock(spool, [&](uint64_t first, const std::vector<TellerRecord>& records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i].layer != TELLER_LAYER_COMM || !converter.IsValid(records[i])) continue;
      comm.push_back(converter.ToComm(first + i, records[i]));
    }
  });
  return JoinCollectives(std::move(comm));
}

void ApplyPatch(const CommPatch& patch, trace::TraceWriter& writer, trace::Event& event) {
  if (patch.joined) event.flags |= trace::kFlagJoined;
  event.comm = patch.comm.empty() ? kNoString : writer.Intern(patch.comm);
  event.sequence = patch.sequence;
}

}  // namespace

RecordFaults WriteProcessEvents(Spool& spool, const std::vector<std::string>& names,
                                const TickClock& clock, int process, trace::TraceWriter& writer) {
  RecordFaults faults;
  Converter converter(names, clock, writer);
  const std::map<uint64_t, CommPatch> patches = JoinSpooled(spool, converter);
  trace::EventTable events;
  ForEachBlock(spool, [&](uint64_t first, const std::vector<TellerRecord>& records) {
    events.Clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!converter.IsValid(records[i])) {
        ++faults.malformed;
        continue;
      }
      trace::Event event = converter.ToEvent(records[i]);
      if (event.end_ns < event.begin_ns) {
        ++faults.reversed;
        event.end_ns = event.begin_ns;
      }
      if (const auto patch = patches.find(first + i); patch != patches.end())
        ApplyPatch(patch->second, writer, event);
      events.Append(event);
    }
    writer.Append(process, events);
  });
  return faults;
}

}  // namespace teller::collect
