#include "src/cli/trace_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "src/core/clock.h"
#include "src/core/text_table.h"
#include "src/trace/trace_schema.h"

namespace teller::cli {
namespace {

using nlohmann::json;
using trace::Kind;
using trace::Layer;

constexpr Kind kDeviceKinds[] = {Kind::kKernel, Kind::kMemcpy, Kind::kMemset, Kind::kGraph,
                                 Kind::kSync};

bool IsDeviceItem(const trace::EventTable& events, std::size_t i) {
  return events.layer[i] == Layer::kDevice ||
         (events.layer[i] == Layer::kComm && (events.flags[i] & trace::kFlagOnDevice) != 0);
}

// What an item is to the device: a collective that runs there is a kernel.
Kind DeviceKind(const trace::EventTable& events, std::size_t i) {
  return events.layer[i] == Layer::kComm ? Kind::kKernel : events.kind[i];
}

// First begin and last end of what has times, on the process's clock.
struct Extent {
  int64_t begin_ns = INT64_MAX;
  int64_t end_ns = INT64_MIN;
};

Extent ExtentOf(const trace::EventTable& events) {
  Extent extent;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if ((events.flags[i] & trace::kFlagNoTiming) != 0) continue;
    extent.begin_ns = std::min(extent.begin_ns, events.begin_ns[i]);
    extent.end_ns = std::max(extent.end_ns, events.end_ns[i]);
  }
  return extent;
}

void CountLinks(const trace::EventTable& events, LinkSummary& links) {
  std::unordered_map<uint64_t, int64_t> items_by_launch;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.layer[i] == Layer::kHostApi && events.correlation[i] != 0)
      items_by_launch[events.correlation[i]] = 0;
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!IsDeviceItem(events, i)) continue;
    const auto launch = items_by_launch.find(events.correlation[i]);
    if (launch == items_by_launch.end()) {
      ++links.without_launch;
    } else {
      ++links.with_launch;
      links.most_per_launch = std::max(links.most_per_launch, ++launch->second);
    }
  }
}

void CountEvents(const trace::EventTable& events, ProcessSummary& process, TraceSummary& summary) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    ++process.counts[static_cast<std::size_t>(events.layer[i])];
    if (IsDeviceItem(events, i))
      ++summary.device_kinds[std::string(KindName(DeviceKind(events, i)))];
    if (events.source[i] != trace::Source::kImport) {
      ++summary.source_counts[std::string(SourceName(events.source[i]))];
    }
  }
}

void FindProblems(int process, const trace::EventTable& events, TraceSummary& summary) {
  int64_t backwards = 0, codes = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.end_ns[i] < events.begin_ns[i]) ++backwards;
    const bool host_only = events.layer[i] == Layer::kBackend || events.layer[i] == Layer::kHostApi;
    if (host_only && (events.flags[i] & trace::kFlagOnDevice) != 0) ++codes;
  }
  if (backwards > 0) {
    summary.problems.push_back(
        fmt::format("process {}: {} events end before they begin", process, backwards));
  }
  if (codes > 0) {
    summary.problems.push_back(
        fmt::format("process {}: {} host events are marked as on a device", process, codes));
  }
}

void TakeStats(std::vector<trace::Stat> stats, TraceSummary& summary) {
  for (trace::Stat& stat : stats) {
    if (stat.name.starts_with(trace::kSourceCountPrefix)) {
      summary.source_counts[stat.name.substr(trace::kSourceCountPrefix.size())] += stat.count;
    } else {
      summary.stats.push_back(std::move(stat));
    }
  }
}

int64_t Duration(const std::vector<Extent>& extents, const reconstruct::Alignment& clock) {
  Extent all;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].begin_ns > extents[i].end_ns) continue;
    all.begin_ns = std::min(all.begin_ns, clock.processes[i].ToBase(extents[i].begin_ns));
    all.end_ns = std::max(all.end_ns, clock.processes[i].ToBase(extents[i].end_ns));
  }
  return all.begin_ns > all.end_ns ? 0 : all.end_ns - all.begin_ns;
}

json RankJson(const ProcessSummary& process) {
  json counts = json::object();
  for (int layer = 0; layer < trace::kLayerCount; ++layer) {
    counts[LayerName(static_cast<Layer>(layer))] = process.counts[static_cast<std::size_t>(layer)];
  }
  const json rank =
      process.info.rank == kNoRank ? json() : json(static_cast<int32_t>(process.info.rank));
  return {{"rank", rank},
          {"host", process.info.host},
          {"pid", process.info.pid},
          {"counts", std::move(counts)}};
}

std::string RankText(RankId rank) {
  return rank == kNoRank ? "-" : std::to_string(static_cast<int32_t>(rank));
}

std::string ProcessTable(const TraceSummary& summary) {
  std::vector<std::string> header{"rank", "node", "host", "pid", "name"};
  for (int layer = 0; layer < trace::kLayerCount; ++layer)
    header.emplace_back(LayerName(static_cast<Layer>(layer)));
  header.insert(header.end(), {"clock", "offset"});
  TextTable table(std::move(header));
  std::size_t silent = 0;
  for (std::size_t i = 0; i < summary.processes.size(); ++i) {
    const ProcessSummary& process = summary.processes[i];
    if (std::ranges::count(process.counts, 0) == trace::kLayerCount) {
      ++silent;
      continue;
    }
    const reconstruct::ClockMap& clock = summary.clock.processes[i];
    std::vector<std::string> row{RankText(process.info.rank), process.info.node, process.info.host,
                                 std::to_string(process.info.pid), process.info.comm};
    for (const int64_t count : process.counts) row.push_back(std::to_string(count));
    row.emplace_back(ClockMethodName(clock.method));
    row.push_back(FormatDuration(clock.offset_ns));
    table.AddRow(std::move(row));
  }
  return table.ToText() +
         (silent == 0 ? "" : fmt::format("and {} processes without an event\n", silent));
}

std::string CountTable(const char* what, const std::map<std::string, int64_t>& counts) {
  TextTable table({what, "count"});
  for (const auto& [name, count] : counts) table.AddRow({name, std::to_string(count)});
  return table.ToText();
}

std::string StatTable(const std::vector<trace::Stat>& stats) {
  static constexpr const char* kSeverities[] = {"information", "error", "data loss"};
  TextTable table({"counter", "count", "unit", "severity"});
  for (const trace::Stat& stat : stats) {
    table.AddRow({stat.name, std::to_string(stat.count), stat.unit,
                  kSeverities[static_cast<int>(stat.severity)]});
  }
  return table.ToText();
}

}  // namespace

TraceSummary SummarizeTrace(const std::filesystem::path& path) {
  const trace::TraceReader reader(path);
  TraceSummary summary{
      .schema_version = fmt::format("{}.{}", trace::kTraceSchema.major, trace::kTraceSchema.minor),
      .run_id = reader.meta().run_id,
      .workload = reader.meta().workload,
      .complete = reader.complete()};
  for (const Kind kind : kDeviceKinds) summary.device_kinds[std::string(KindName(kind))] = 0;
  std::vector<Extent> extents;
  std::vector<reconstruct::CollectiveRecord> collectives;
  for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i) {
    const trace::EventTable events = reader.ReadEvents(i);
    ProcessSummary process{.info = reader.processes()[static_cast<std::size_t>(i)]};
    CountEvents(events, process, summary);
    CountLinks(events, summary.links);
    FindProblems(i, events, summary);
    extents.push_back(ExtentOf(events));
    const auto records = reconstruct::CollectivesOf(i, events);
    collectives.insert(collectives.end(), records.begin(), records.end());
    summary.processes.push_back(std::move(process));
  }
  summary.clock = reconstruct::AlignClocks(reader.processes(), reader.ReadClock(),
                                           reader.ReadProbes(), collectives, reader.strings());
  summary.duration_ns = Duration(extents, summary.clock);
  summary.logs = static_cast<int64_t>(reader.ReadLogs().size());
  TakeStats(reader.ReadStats(), summary);
  if (!summary.complete)
    summary.problems.push_back("the file is incomplete: its writer was killed");
  return summary;
}

json ToJson(const TraceSummary& summary) {
  json ranks = json::array(), stats = json::object();
  for (const ProcessSummary& process : summary.processes) ranks.push_back(RankJson(process));
  for (const trace::Stat& stat : summary.stats) stats[stat.name] = stat.count;
  return {
      {"schema_version", summary.schema_version},
      {"duration_ns", summary.duration_ns},
      {"complete", summary.complete},
      {"ranks", std::move(ranks)},
      {"device_kinds", summary.device_kinds},
      {"links",
       {{"device_with_launch", summary.links.with_launch},
        {"device_without_launch", summary.links.without_launch},
        {"max_device_per_launch", summary.links.most_per_launch}}},
      {"source_counts", summary.source_counts},
      {"logs", summary.logs},
      {"clock", {{"aligned", summary.clock.aligned}, {"residual_ns", summary.clock.residual_ns}}},
      {"stats", std::move(stats)}};
}

std::string ToText(const TraceSummary& summary) {
  std::string text = fmt::format(
      "run {}, workload {}, {}, {}, schema {}\n\n", summary.run_id.empty() ? "-" : summary.run_id,
      summary.workload.empty() ? "-" : summary.workload, FormatDuration(summary.duration_ns),
      summary.complete ? "complete" : "incomplete: its writer was killed", summary.schema_version);
  text += ProcessTable(summary);
  text +=
      fmt::format("\nclock: {}, residual {}\n", summary.clock.aligned ? "aligned" : "not aligned",
                  FormatDuration(summary.clock.residual_ns));
  for (const std::string& note : summary.clock.notes) text += "  " + note + "\n";
  text += fmt::format(
      "log lines: {}\ndevice items: {} with a launch, {} without, at most {} of one launch\n\n",
      summary.logs, summary.links.with_launch, summary.links.without_launch,
      summary.links.most_per_launch);
  text += CountTable("device kind", summary.device_kinds);
  if (!summary.source_counts.empty()) text += "\n" + CountTable("source", summary.source_counts);
  if (!summary.stats.empty()) text += "\n" + StatTable(summary.stats);
  return text;
}

}  // namespace teller::cli
