#include "src/interop/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/h5/child.h"
#include "src/trace/trace_file.h"

namespace teller::interop {
namespace {

namespace fs = std::filesystem;

/// Reads everything once where a crash does no harm.
void ProbeInChild(const fs::path& file) {
  h5::RunInChild(file.string(), h5::ChildLimits::ForFile(file), [&] {
    const trace::TraceReader reader(file);
    for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i) reader.ReadEvents(i);
    reader.ReadLogs();
    reader.ReadClock();
    reader.ReadProbes();
    reader.ReadStats();
    return std::string();
  });
}

void CheckSame(const std::string& what, const fs::path& first, const std::string& of_first,
               const fs::path& other, const std::string& of_other) {
  if (of_first == of_other) return;
  throw DataError(fmt::format("{} is of {} '{}', {} of '{}': only files of one run are merged",
                              first.string(), what, of_first, other.string(), of_other));
}

}  // namespace

trace::TraceMeta MergedMeta(const std::vector<fs::path>& files) {
  trace::TraceMeta merged;
  for (const fs::path& file : files) {
    ProbeInChild(file);
    const trace::TraceReader reader(file);
    if (file == files.front()) {
      merged = reader.meta();
      continue;
    }
    CheckSame("run", files.front(), merged.run_id, file, reader.meta().run_id);
    CheckSame("clock", files.front(), merged.clock, file, reader.meta().clock);
    for (const std::string& host : reader.meta().hosts) {
      if (std::find(merged.hosts.begin(), merged.hosts.end(), host) == merged.hosts.end())
        merged.hosts.push_back(host);
    }
  }
  return merged;
}

void CopyTrace(const fs::path& file, TraceSink& sink, RankNames& ranks, ImportLog& log) {
  const trace::TraceReader reader(file);
  if (!reader.complete())
    log.Note(fmt::format("{}: incomplete, its writer was killed", file.string()));
  std::vector<StringId> ids;
  for (const std::string& text : reader.strings().Strings()) ids.push_back(sink.Intern(text));
  const auto translate = [&](StringId& id) {
    if (id == kNoString) return;
    if (Index(id) < ids.size()) {
      id = ids[Index(id)];
    } else {
      id = kNoString;
      log.Count("missing_string", 1, trace::Severity::kError, "strings");
    }
  };
  std::vector<int> processes;
  for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i) {
    ThrowIfInterrupted();
    const trace::ProcessInfo& info = reader.processes()[static_cast<std::size_t>(i)];
    processes.push_back(sink.AddProcess(info));
    if (info.rank != kNoRank)
      ranks.Add({processes.back(), info}, RankSource::kStated, file.string());
    trace::EventTable events = reader.ReadEvents(i);
    std::for_each(events.name.begin(), events.name.end(), translate);
    std::for_each(events.comm.begin(), events.comm.end(), translate);
    std::for_each(events.request.begin(), events.request.end(), translate);
    sink.Append(processes.back(), events);
  }
  const auto process_of = [&](int32_t process) {
    return process < 0 || process >= static_cast<int32_t>(processes.size())
               ? -1
               : processes[static_cast<std::size_t>(process)];
  };
  std::vector<trace::LogLine> lines = reader.ReadLogs();
  for (trace::LogLine& line : lines) {
    line.process = process_of(line.process);
    translate(line.file);
  }
  sink.AppendLogs(lines);
  std::vector<trace::ClockTriple> triples = reader.ReadClock();
  for (trace::ClockTriple& triple : triples) triple.process = process_of(triple.process);
  sink.AppendClock(triples);
  sink.AppendProbes(reader.ReadProbes());
  for (const trace::Stat& stat : reader.ReadStats()) {
    if (stat.name.starts_with(trace::kSourceCountPrefix)) {
      log.CountSource(stat.name.substr(trace::kSourceCountPrefix.size()), stat.count);
    } else {
      log.Count(stat.name, stat.count, stat.severity, stat.unit);
    }
  }
}

}  // namespace teller::interop
