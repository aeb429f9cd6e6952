#include "src/collect/session.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "src/abi/activity.h"
#include "src/abi/control_file.h"
#include "src/cluster/journal.h"
#include "src/cluster/run_folder.h"
#include "src/collect/drain.h"
#include "src/collect/process_events.h"
#include "src/collect/tick_clock.h"
#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::collect {

namespace {

constexpr const char* kSourceNames[] = {"nvtx", "torch", "cupti", "cpu-stream", "import"};
static_assert(std::size(kSourceNames) == TELLER_SOURCE_COUNT);

struct DropName {
  TellerDropReason reason;
  const char* name;
  trace::Severity severity;
  const char* unit = "events";
};

constexpr DropName kDropNames[] = {
    {TELLER_DROP_NO_SEGMENT, "dropped_no_segment", trace::Severity::kDataLoss},
    {TELLER_DROP_NAME_TABLE_FULL, "name_table_full", trace::Severity::kError},
    {TELLER_DROP_UNBALANCED_POP, "unbalanced_pop", trace::Severity::kError},
    {TELLER_DROP_UNKNOWN_RANGE_END, "unknown_range_end", trace::Severity::kError},
    {TELLER_DROP_STACK_OVERFLOW, "stack_overflow", trace::Severity::kDataLoss},
    {TELLER_DROP_IN_FORK, "dropped_in_fork", trace::Severity::kDataLoss},
    {TELLER_DROP_OTHER, "dropped_other", trace::Severity::kDataLoss},
    {TELLER_DROP_CUPTI_RECORDS, "dropped_by_cupti", trace::Severity::kDataLoss},
    {TELLER_DROP_CUPTI_BUFFER, "damaged_cupti_buffer", trace::Severity::kDataLoss, "buffers"},
    {TELLER_DROP_CUPTI_UNTIMED, "untimed_by_cupti", trace::Severity::kDataLoss},
};

std::string RandomRunId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// A folder that goes away with the object, with all that is in it.
class OwnedFolder {
 public:
  OwnedFolder() = default;
  ~OwnedFolder() { Remove(); }
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

  void Create(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) {
      throw DeviceError(fmt::format("{}: cannot make the folder: {}", path.string(),
                                    error ? error.message() : "it exists already"));
    }
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
    path_ = path;
  }
  void Remove() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    path_.clear();
  }

 private:
  std::filesystem::path path_;
};

TellerControl* CreateControl(const std::filesystem::path& folder, const SessionOptions& options) {
  TellerControl* control = nullptr;
  int error = teller_control_create(folder.c_str(), &control);
  if (error == EEXIST) error = teller_control_map(folder.c_str(), 1, &control);
  if (error != 0) {
    throw DeviceError(fmt::format("{}/{}: cannot make the control block: {}", folder.string(),
                                  TELLER_CONTROL_FILE, strerror(error)));
  }
  control->sources = options.sources;
  control->shapes = options.shapes ? 1 : 0;
  control->whole_graphs = options.whole_graphs ? 1 : 0;
  teller_control_own(control);
  if (options.perturb) teller_control_set_perturb(control, 1);
  teller_control_set_level(control, static_cast<uint32_t>(options.level));
  return control;
}

/// `ours`, then what the variable held.
std::string Prepend(const std::string& ours, const char* variable) {
  const char* held = getenv(variable);
  return held == nullptr || *held == 0 ? ours : ours + ":" + held;
}

class SessionImpl final : public Session {
 public:
  explicit SessionImpl(const SessionOptions& options)
      : options_(options),
        run_id_(options.run_id.empty() ? RandomRunId() : options.run_id),
        agent_(options.agent_library.empty() ? FindAgentLibrary() : options.agent_library),
        output_(options.output, options.force) {
    run_dir_ = options.run_dir;
    if (run_dir_.empty()) {
      journal_ = std::make_unique<cluster::Journal>(run_id_);
      owned_run_dir_ = std::make_unique<cluster::RunFolder>(run_id_, *journal_);
      run_dir_ = owned_run_dir_->path();
    }
    spool_dir_ = options.spool_dir;
    if (spool_dir_.empty()) {
      spool_dir_ = output_.path().parent_path() / fmt::format(".teller-{}.spool", run_id_);
      owned_spool_.Create(spool_dir_);
    }
    control_.reset(CreateControl(run_dir_, options));
    drain_ = std::make_unique<Drain>(run_dir_, spool_dir_);
  }

  const std::string& run_id() const override { return run_id_; }
  const std::filesystem::path& run_dir() const override { return run_dir_; }
  const std::filesystem::path& spool_dir() const override { return spool_dir_; }
  TellerControl& control() override { return *control_; }
  void SetLevel(Level level) override {
    teller_control_set_level(control_.get(), static_cast<uint32_t>(level));
  }
  void AddLogFile(const std::string& node, const std::string& name,
                  const std::filesystem::path& path) override {
    drain_->AddLogFile(node, name, path);
  }
  std::vector<trace::ProcessInfo> Processes() override { return drain_->Processes(); }
  uint64_t RecordCount() const override { return drain_->records(); }
  std::map<std::string, std::string> Environment(const std::string& node) const override;
  std::vector<trace::Stat> Finish() override;

 private:
  struct UnmapControl {
    void operator()(TellerControl* control) const { teller_control_unmap(control); }
  };

  trace::TraceMeta Meta() const;
  void WriteProcesses(trace::TraceWriter& writer);
  void WriteLogs(trace::TraceWriter& writer);
  void RememberRank(const std::string& node, int process);
  void CountProcess(const PoolReader& pool, const Spool& spool, const RecordFaults& faults);
  void Count(const std::string& name, const std::string& unit, trace::Severity severity,
             uint64_t count);

  SessionOptions options_;
  std::string run_id_;
  std::filesystem::path agent_;
  AtomicFile output_;
  std::filesystem::path run_dir_, spool_dir_;
  std::unique_ptr<cluster::Journal> journal_;
  std::unique_ptr<cluster::RunFolder> owned_run_dir_;
  OwnedFolder owned_spool_;
  std::unique_ptr<TellerControl, UnmapControl> control_;
  TickRate tick_rate_;
  std::unique_ptr<Drain> drain_;
  std::vector<trace::Stat> stats_;
  std::set<std::string> notes_;
  std::map<std::string, int> rank_process_of_node_;  ///< -1: more than one
};

std::map<std::string, std::string> SessionImpl::Environment(const std::string& node) const {
  return AgentEnvironment(agent_, run_dir_, node);
}

trace::TraceMeta SessionImpl::Meta() const {
  trace::TraceMeta meta;
  meta.run_id = run_id_;
  meta.config_yaml = options_.config_yaml;
  meta.workload = options_.workload;
  for (const TracedProcess& process : drain_->processes()) {
    const std::string host = process.pool->Info().host;
    if (std::find(meta.hosts.begin(), meta.hosts.end(), host) == meta.hosts.end())
      meta.hosts.push_back(host);
  }
  return meta;
}

void SessionImpl::Count(const std::string& name, const std::string& unit, trace::Severity severity,
                        uint64_t count) {
  const auto known = std::find_if(stats_.begin(), stats_.end(),
                                  [&](const trace::Stat& stat) { return stat.name == name; });
  if (known != stats_.end()) {
    known->count += static_cast<int64_t>(count);
  } else {
    stats_.push_back({name, unit, severity, static_cast<int64_t>(count)});
  }
}

void SessionImpl::CountProcess(const PoolReader& pool, const Spool& spool,
                               const RecordFaults& faults) {
  for (const DropName& drop : kDropNames)
    Count(drop.name, drop.unit, drop.severity, pool.dropped(drop.reason));
  Count("lost_spool_full", "events", trace::Severity::kDataLoss, spool.lost());
  Count("malformed_record", "events", trace::Severity::kDataLoss, faults.malformed);
  Count("reversed_record", "events", trace::Severity::kError, faults.reversed);
  Count("lost_clock_triple", "readings", trace::Severity::kError, pool.clock_lost());
  Count("records", "events", trace::Severity::kInfo, spool.size());
  if ((pool.sources_attached() & (1u << TELLER_SOURCE_CUPTI)) != 0)
    Count("cupti_overhead", "ns", trace::Severity::kInfo, pool.cupti_overhead_ns());
  for (uint32_t source = 0; source < TELLER_SOURCE_COUNT; ++source) {
    if ((pool.sources_attached() & (1u << source)) == 0) continue;
    std::string name = kSourceNames[source];
    std::replace(name.begin(), name.end(), '-', '_');
    Count("attached_" + name, "processes", trace::Severity::kInfo, 1);
    Count("attach_" + name, "ns", trace::Severity::kInfo,
          pool.attach_ns(static_cast<TellerSource>(source)));
  }
}

/// Shells and helpers that none of our entrances reached and that wrote nothing; a run of scripts
/// has thousands of them.
bool IsSilent(const TracedProcess& process) {
  return process.pool->sources_attached() == 0 && process.spool->size() == 0 &&
         process.pool->Info().rank == kNoRank;
}

void SessionImpl::WriteProcesses(trace::TraceWriter& writer) {
  for (TracedProcess& process : drain_->processes()) {
    const PoolReader& pool = *process.pool;
    if (const std::string note = pool.Note(); !note.empty()) notes_.insert(note);
    if (pool.clock().empty() || IsSilent(process)) {
      Count("silent_processes", "processes", trace::Severity::kInfo, 1);
      continue;
    }
    const int index = writer.AddProcess(pool.Info());
    if (pool.Info().rank != kNoRank) RememberRank(pool.Info().node, index);
    const TickClock clock(pool.clock(), tick_rate_.NsPerTick());
    CountProcess(pool, *process.spool,
                 WriteProcessEvents(*process.spool, pool.names(), clock, index, writer));
    std::vector<trace::ClockTriple> triples;
    for (const TellerClockTriple& t : pool.clock())
      triples.push_back({index, t.ticks, t.monotonic_ns, t.realtime_ns});
    writer.AppendClock(triples);
  }
}

void SessionImpl::RememberRank(const std::string& node, int process) {
  const auto [entry, is_first] = rank_process_of_node_.try_emplace(node, process);
  if (!is_first) entry->second = -1;
}

void SessionImpl::WriteLogs(trace::TraceWriter& writer) {
  std::vector<trace::LogLine> lines;
  for (const DrainedLine& drained : drain_->lines()) {
    const auto process = rank_process_of_node_.find(drained.node);
    lines.push_back({.read_ns = drained.line.read_ns,
                     .realtime_ns = drained.line.realtime_ns,
                     .process = process == rank_process_of_node_.end() ? -1 : process->second,
                     .file = writer.Intern(drained.file),
                     .offset = drained.line.offset,
                     .text = drained.line.text});
  }
  writer.AppendLogs(lines);
  Count("log_lines", "lines", trace::Severity::kInfo, lines.size());
}

std::vector<trace::Stat> SessionImpl::Finish() {
  SetLevel(Level::kOff);
  drain_->Stop();
  trace::TraceWriter writer(output_.path(), Meta());
  WriteProcesses(writer);
  WriteLogs(writer);
  Count("unusable_pool", "processes", trace::Severity::kDataLoss, drain_->problems().size());
  Count("drain_cpu", "ns", trace::Severity::kInfo, static_cast<uint64_t>(drain_->cpu_ns()));
  writer.SetStats(stats_);
  writer.Close();
  output_.Commit();
  for (const std::string& note : notes_) LogWarning(note);
  for (const std::string& problem : drain_->problems()) LogWarning(problem);
  owned_spool_.Remove();
  owned_run_dir_.reset();
  return stats_;
}

}  // namespace

Level ParseLevel(const std::string& text) {
  for (const Level level : {Level::kOff, Level::kRanges, Level::kFull}) {
    if (text == LevelName(level)) return level;
  }
  throw ConfigError(fmt::format("level '{}': expected off, ranges or full", text));
}

const char* LevelName(Level level) {
  constexpr const char* kNames[] = {"off", "ranges", "full"};
  return static_cast<uint32_t>(level) < std::size(kNames) ? kNames[static_cast<uint32_t>(level)]
                                                          : "unknown";
}

uint32_t ParseSources(const std::string& text) {
  uint32_t bits = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto* known =
        std::find(std::begin(kSourceNames), std::begin(kSourceNames) + TELLER_SOURCE_IMPORT, name);
    if (known == std::begin(kSourceNames) + TELLER_SOURCE_IMPORT) {
      throw ConfigError(
          fmt::format("source '{}': expected nvtx, torch, cupti or cpu-stream", name));
    }
    bits |= 1u << (known - std::begin(kSourceNames));
    begin = end + 1;
  }
  return bits;
}

std::filesystem::path FindAgentLibrary() {
  if (const char* named = getenv("TELLER_AGENT_LIBRARY"); named != nullptr && *named != 0) {
    if (access(named, R_OK) == 0) return std::filesystem::absolute(named);
    throw UnavailableError(
        fmt::format("TELLER_AGENT_LIBRARY: cannot read {}: {}", named, strerror(errno)));
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path library =
      program.parent_path().parent_path() / "lib" / "libteller_agent.so";
  if (access(library.c_str(), R_OK) == 0) return library;
  throw UnavailableError(
      fmt::format("{}: the agent library is not there; build the target teller_agent (it needs "
                  "TELLER_WITH_TORCH) or set TELLER_AGENT_LIBRARY",
                  library.string()));
}

std::unique_ptr<Session> Session::Start(const SessionOptions& options) {
  return std::make_unique<SessionImpl>(options);
}

std::map<std::string, std::string> AgentEnvironment(const std::filesystem::path& agent_library,
                                                    const std::filesystem::path& run_dir,
                                                    const std::string& node) {
  std::map<std::string, std::string> variables;
  const std::string agent = agent_library.string();
  variables["TELLER_RUN_DIR"] = run_dir.string();
  if (!node.empty()) variables["TELLER_NODE"] = node;
  variables["LD_PRELOAD"] = Prepend(agent, "LD_PRELOAD");
  for (const auto& [variable, next] :
       {std::pair{"NVTX_INJECTION64_PATH", "TELLER_NEXT_NVTX_INJECTION64_PATH"},
        std::pair{"CUDA_INJECTION64_PATH", "TELLER_NEXT_CUDA_INJECTION64_PATH"},
        std::pair{TELLER_ACTIVITY_VARIABLE, "TELLER_NEXT_CPU_STREAM_INJECTION64_PATH"}}) {
    const char* held = getenv(variable);
    if (held != nullptr && *held != 0 && agent != held) variables[next] = held;
    variables[variable] = agent;
  }
  return variables;
}

}  // namespace teller::collect
