#include "src/collect/trace_assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "src/collect/log_process.h"
#include "src/collect/process_events.h"
#include "src/collect/sources.h"
#include "src/collect/tick_clock.h"
#include "src/core/log.h"

namespace teller::collect {

namespace {

using trace::Severity;

struct DropName {
  TellerDropReason reason;
  const char* name;
  Severity severity;
  const char* unit = "events";
};

constexpr DropName kDropNames[] = {
    {TELLER_DROP_NO_SEGMENT, "dropped_no_segment", Severity::kDataLoss},
    {TELLER_DROP_NAME_TABLE_FULL, "name_table_full", Severity::kError},
    {TELLER_DROP_UNBALANCED_POP, "unbalanced_pop", Severity::kError},
    {TELLER_DROP_UNKNOWN_RANGE_END, "unknown_range_end", Severity::kError},
    {TELLER_DROP_STACK_OVERFLOW, "stack_overflow", Severity::kDataLoss},
    {TELLER_DROP_IN_FORK, "dropped_in_fork", Severity::kDataLoss},
    {TELLER_DROP_OTHER, "dropped_other", Severity::kDataLoss},
    {TELLER_DROP_CUPTI_RECORDS, "dropped_by_cupti", Severity::kDataLoss},
    {TELLER_DROP_CUPTI_BUFFER, "damaged_cupti_buffer", Severity::kDataLoss, "buffers"},
    {TELLER_DROP_CUPTI_UNTIMED, "untimed_by_cupti", Severity::kDataLoss},
    {TELLER_DROP_SPOOL_FULL, "lost_spool_full", Severity::kDataLoss},
};

/// A clock that is slewed moves by 0.5 ms a second at most.
constexpr int64_t kLeastStepNs = 100'000'000;

/// Jumps of CLOCK_REALTIME against CLOCK_MONOTONIC in the readings of the processes.
struct RealtimeSteps {
  uint64_t count = 0;
  int64_t largest_ns = 0;

  void Look(const std::vector<TellerClockTriple>& triples) {
    uint64_t seen = 0;
    for (std::size_t i = 1; i < triples.size(); ++i) {
      const int64_t step_ns = (triples[i].realtime_ns - triples[i - 1].realtime_ns) -
                              (triples[i].monotonic_ns - triples[i - 1].monotonic_ns);
      if (std::llabs(step_ns) < kLeastStepNs) continue;
      ++seen;
      if (std::llabs(step_ns) > std::llabs(largest_ns)) largest_ns = step_ns;
    }
    count = std::max(count, seen);  // every process sees the same ones
  }
};

class Assembly {
 public:
  Assembly(const std::filesystem::path& path, const Gathered& gathered)
      : gathered_(gathered), writer_(path, Meta()), result_{gathered.stats, {}} {}

  Assembled Run() {
    for (TracedProcess& process : gathered_.processes) WriteProcess(process);
    WriteLogs();
    writer_.AppendProbes(gathered_.probes);
    SayWhatClocksDid();
    writer_.SetStats(result_.stats);
    writer_.Close();
    result_.notes.insert(result_.notes.end(), notes_.begin(), notes_.end());
    return std::move(result_);
  }

 private:
  trace::TraceMeta Meta() const {
    trace::TraceMeta meta;
    meta.run_id = gathered_.run_id;
    meta.config_yaml = gathered_.config_yaml;
    meta.workload = gathered_.workload;
    for (const TracedProcess& process : gathered_.processes) {
      const std::string host = process.pool().Info().host;
      if (std::find(meta.hosts.begin(), meta.hosts.end(), host) == meta.hosts.end())
        meta.hosts.push_back(host);
    }
    return meta;
  }

  void Add(const std::string& name, const std::string& unit, Severity severity, uint64_t count) {
    Count(result_.stats, name, unit, severity, count);
  }

  void WriteProcess(TracedProcess& process) {
    const PoolReader& pool = process.pool();
    if (const std::string note = pool.Note(); !note.empty()) notes_.insert(note);
    if (pool.clock().empty() || process.IsSilent()) {
      Add("silent_processes", "processes", Severity::kInfo, 1);
      return;
    }
    const int index = writer_.AddProcess(pool.Info());
    log_process_.Add(index, pool.Info());
    const TickClock clock(pool.clock(), gathered_.ns_per_tick);
    CountProcess(process, WriteProcessEvents(process.spool(), pool.names(), clock, index, writer_));
    std::vector<trace::ClockTriple> triples;
    for (const TellerClockTriple& t : pool.clock())
      triples.push_back({index, t.ticks, t.monotonic_ns, t.realtime_ns});
    writer_.AppendClock(triples);
    steps_.Look(pool.clock());
    without_tsc_ += pool.has_invariant_tsc() ? 0 : 1;
  }

  void CountProcess(const TracedProcess& process, const RecordFaults& faults) {
    const PoolReader& pool = process.pool();
    for (const DropName& drop : kDropNames)
      Add(drop.name, drop.unit, drop.severity, pool.dropped(drop.reason));
    Add("malformed_record", "events", Severity::kDataLoss, faults.malformed);
    Add("reversed_record", "events", Severity::kError, faults.reversed);
    Add("lost_clock_triple", "readings", Severity::kError, pool.clock_lost());
    Add("records", "events", Severity::kInfo, process.spool().size());
    if ((pool.sources_attached() & (1u << TELLER_SOURCE_CUPTI)) != 0)
      Add("cupti_overhead", "ns", Severity::kInfo, pool.cupti_overhead_ns());
    for (uint32_t source = 0; source < TELLER_SOURCE_COUNT; ++source) {
      if ((pool.sources_attached() & (1u << source)) == 0) continue;
      std::string name = SourceOptionName(source);
      std::replace(name.begin(), name.end(), '-', '_');
      Add("attached_" + name, "processes", Severity::kInfo, 1);
      Add("attach_" + name, "ns", Severity::kInfo,
          pool.attach_ns(static_cast<TellerSource>(source)));
    }
  }

  void WriteLogs() {
    uint64_t lines = 0;
    gathered_.lines.ForEachBlock([&](const std::vector<SpooledLine>& block) {
      std::vector<trace::LogLine> written;
      for (const SpooledLine& line : block) {
        written.push_back({.read_ns = line.read_ns,
                           .realtime_ns = line.realtime_ns,
                           .process = log_process_.Of(line.node, line.text),
                           .file = writer_.Intern(line.file),
                           .offset = line.offset,
                           .text = line.text});
      }
      writer_.AppendLogs(written);
      lines += block.size();
    });
    Add("log_lines", "lines", Severity::kInfo, lines);
    Add("lost_log_lines", "lines", Severity::kDataLoss, gathered_.lines.lost());
  }

  void SayWhatClocksDid() {
    Add("realtime_steps", "steps", Severity::kError, steps_.count);
    Add("without_invariant_tsc", "processes", Severity::kInfo, without_tsc_);
    if (steps_.count > 0) {
      notes_.insert(
          fmt::format("CLOCK_REALTIME was set while running, by {:+.3f} s at most: times that log "
                      "lines state before and after do not compare; events are not affected",
                      static_cast<double>(steps_.largest_ns) / 1e9));
    }
    if (without_tsc_ > 0) {
      notes_.insert(
          fmt::format("{} processes ran without an invariant time stamp counter: each "
                      "stamp was a call of clock_gettime, which costs more",
                      without_tsc_));
    }
  }

  const Gathered& gathered_;
  trace::TraceWriter writer_;
  Assembled result_;
  LogProcess log_process_;
  std::set<std::string> notes_;  ///< each once, however many processes say it
  RealtimeSteps steps_;
  uint64_t without_tsc_ = 0;
};

}  // namespace

void LogProblems(const std::vector<std::string>& problems) {
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i) LogWarning(problems[i]);
  if (problems.size() > kShown) {
    LogWarning(fmt::format("{} more of the same kind (unusable_pool in /stats)",
                           problems.size() - kShown));
  }
}

void Count(std::vector<trace::Stat>& stats, const std::string& name, const std::string& unit,
           Severity severity, uint64_t count) {
  const auto known = std::find_if(stats.begin(), stats.end(),
                                  [&](const trace::Stat& stat) { return stat.name == name; });
  if (known != stats.end()) {
    known->count += static_cast<int64_t>(count);
  } else {
    stats.push_back({name, unit, severity, static_cast<int64_t>(count)});
  }
}

Assembled AssembleTrace(const std::filesystem::path& path, const Gathered& gathered) {
  return Assembly(path, gathered).Run();
}

}  // namespace teller::collect
