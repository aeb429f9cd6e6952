#include "src/collect/session.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "src/abi/activity.h"
#include "src/abi/control_file.h"
#include "src/cluster/journal.h"
#include "src/cluster/run_folder.h"
#include "src/collect/drain.h"
#include "src/collect/log_gatherer.h"
#include "src/collect/recovery.h"
#include "src/collect/run_id.h"
#include "src/collect/tick_clock.h"
#include "src/collect/trace_assembly.h"
#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::collect {

namespace {

constexpr std::chrono::milliseconds kLimitPeriod(50);

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
  /// It stays, also beyond this object.
  void Keep() { path_.clear(); }
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
    if (options.run_dir.empty() || options.recoverable)
      journal_ = std::make_unique<cluster::Journal>(run_id_);
    spool_dir_ = std::filesystem::absolute(options.output).parent_path() /
                 fmt::format(".{}.teller-{}.spool", options.output.filename().string(), run_id_);
    MakeRunFolder();
    // Behind the run folder: changes are undone in reverse order, and recovering needs its pools.
    if (options.recoverable) journal_->Record(cluster::Change::kCollection, spool_dir_.string());
    owned_spool_.Create(spool_dir_);
    if (options.recoverable) Record().WriteIn(spool_dir_);
    control_.reset(CreateControl(run_dir_, options));
    drain_ = std::make_unique<Drain>(run_dir_, spool_dir_);
    logs_ = std::make_unique<LogGatherer>(spool_dir_ / "lines");
    if (options.max_bytes > 0) limit_ = std::thread([this] { StopAtLimit(); });
  }
  ~SessionImpl() override { EndLimit(); }

  const std::string& run_id() const override { return run_id_; }
  const std::filesystem::path& run_dir() const override { return run_dir_; }
  const std::filesystem::path& spool_dir() const override { return spool_dir_; }
  TellerControl& control() override { return *control_; }
  void SetLevel(Level level) override {
    teller_control_set_level(control_.get(), static_cast<uint32_t>(level));
  }
  void AddLogFile(const std::string& node, const std::string& name,
                  const std::filesystem::path& path, const LogFollower::Options& options) override {
    logs_->AddFile(node, name, path, options);
  }
  void AddLogPattern(const std::string& pattern) override { logs_->AddPattern(pattern); }
  void AddStat(const trace::Stat& stat) override {
    Count(stats_, stat.name, stat.unit, stat.severity, static_cast<uint64_t>(stat.count));
  }
  void AddProbes(const std::vector<trace::ClockProbe>& probes) override {
    probes_.insert(probes_.end(), probes.begin(), probes.end());
  }
  std::vector<trace::ProcessInfo> Processes() override { return drain_->Processes(); }
  uint64_t RecordCount() const override { return drain_->records(); }
  int64_t DrainCpuNs() const override { return drain_->cpu_ns() + logs_->cpu_ns(); }
  std::map<std::string, std::string> Environment(const std::string& node) const override;
  std::vector<trace::Stat> Finish() override;

 private:
  struct UnmapControl {
    void operator()(TellerControl* control) const { teller_control_unmap(control); }
  };

  void MakeRunFolder();
  CollectionRecord Record() const;
  void StopAtLimit();
  void EndLimit();
  Assembled Write();

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
  std::unique_ptr<LogGatherer> logs_;
  std::vector<trace::Stat> stats_;
  std::vector<trace::ClockProbe> probes_;
  std::thread limit_;  ///< watches max_bytes
  std::mutex limit_mutex_;
  std::condition_variable limit_wake_;
  bool limit_ended_ = false;  ///< guarded by limit_mutex_
  std::atomic<bool> limit_reached_{false};
};

void SessionImpl::MakeRunFolder() {
  run_dir_ = options_.run_dir;
  if (!run_dir_.empty()) return;
  owned_run_dir_ = std::make_unique<cluster::RunFolder>(run_id_, *journal_);
  run_dir_ = owned_run_dir_->path();
}

CollectionRecord SessionImpl::Record() const {
  return {.run_id = run_id_,
          .run_dir = std::filesystem::absolute(run_dir_),
          .output = std::filesystem::absolute(options_.output),
          .workload = options_.workload,
          .config_yaml = options_.config_yaml,
          .collector_pid = getpid()};
}

/// Recording stops, the targets go on.
void SessionImpl::StopAtLimit() {
  std::unique_lock lock(limit_mutex_);
  while (!limit_wake_.wait_for(lock, kLimitPeriod, [this] { return limit_ended_; })) {
    if (drain_->records() * sizeof(TellerRecord) + logs_->bytes() < options_.max_bytes) continue;
    SetLevel(Level::kOff);
    limit_reached_ = true;
    return;
  }
}

void SessionImpl::EndLimit() {
  {
    const std::lock_guard lock(limit_mutex_);
    limit_ended_ = true;
  }
  limit_wake_.notify_all();
  if (limit_.joinable()) limit_.join();
}

std::map<std::string, std::string> SessionImpl::Environment(const std::string& node) const {
  return AgentEnvironment(agent_, run_dir_, node);
}

Assembled SessionImpl::Write() {
  Count(stats_, "unusable_pool", "processes", trace::Severity::kDataLoss,
        drain_->problems().size());
  Count(stats_, "drain_cpu", "ns", trace::Severity::kInfo, static_cast<uint64_t>(DrainCpuNs()));
  Count(stats_, "stopped_at_max_size", "collections", trace::Severity::kInfo, limit_reached_);
  Assembled assembled = AssembleTrace(output_.path(), {.run_id = run_id_,
                                                       .workload = options_.workload,
                                                       .config_yaml = options_.config_yaml,
                                                       .ns_per_tick = tick_rate_.NsPerTick(),
                                                       .processes = drain_->processes(),
                                                       .lines = logs_->lines(),
                                                       .probes = probes_,
                                                       .stats = stats_});
  output_.Commit();
  return assembled;
}

std::vector<trace::Stat> SessionImpl::Finish() {
  EndLimit();
  SetLevel(Level::kOff);
  drain_->Stop();
  logs_->Stop();
  Assembled assembled;
  try {
    assembled = Write();
  } catch (const DeviceError& error) {
    if (!options_.recoverable) throw;
    journal_->Keep();
    owned_spool_.Keep();
    if (owned_run_dir_) owned_run_dir_->Keep();
    throw DeviceError(
        fmt::format("{}; what was recorded stays in {}: make room and run 'teller restore'",
                    error.what(), spool_dir_.string()));
  }
  for (const std::string& note : assembled.notes) LogWarning(note);
  LogProblems(drain_->problems());
  if (limit_reached_) {
    LogWarning(fmt::format("recording stopped at --max-size ({} bytes of raw records and lines)",
                           options_.max_bytes));
  }
  owned_spool_.Remove();
  owned_run_dir_.reset();
  return std::move(assembled.stats);
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
