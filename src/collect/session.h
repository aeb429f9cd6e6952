#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/abi/control.h"
#include "src/collect/log_follower.h"
#include "src/collect/sources.h"
#include "src/trace/trace_file.h"

namespace teller::collect {

/// How much is captured (docs/design.md, section 5); numbers as TellerLevel.
enum class Level : uint32_t {
  kOff = TELLER_LEVEL_OFF,
  kRanges = TELLER_LEVEL_RANGES,
  kFull = TELLER_LEVEL_FULL
};

/// 'off', 'ranges' or 'full'; throws ConfigError.
Level ParseLevel(const std::string& text);
const char* LevelName(Level level);

struct SessionOptions {
  std::filesystem::path output;  ///< the trace file
  bool force = false;            ///< overwrite `output`
  std::filesystem::path
      run_dir;               ///< a tmpfs folder that exists; empty: one is made and removed again
  bool recoverable = false;  ///< journalled: 'teller restore' writes the trace if we are killed
  std::string run_id;        ///< empty: random
  std::string workload = "command";
  std::string config_yaml;
  Level level = Level::kFull;
  uint32_t sources = kAllSources;
  bool shapes = false;        ///< operators keep the shapes of their inputs
  bool whole_graphs = false;  ///< a launch of a CUDA graph is one event, not one a node
  uint64_t max_bytes = 0;  ///< of raw records and log lines kept; then recording stops. 0: no limit
  bool perturb = false;    ///< agents may perturb: they make their hit rings
  std::filesystem::path agent_library;  ///< empty: as FindAgentLibrary
};

/// One collection: run folder, control block, the thread that drains every process's pool and
/// follows log files, and at the end the trace file. Targets never wait for it. Everything of a
/// process that was killed up to its last record is still in its pool and gets written. The thread
/// is the only one that touches pools until Finish. What is drained is on disk at once
/// (traced_process.h), so a killed collector loses nothing (recovery.h).
class Session {
 public:
  /// Throws ConfigError (output exists, bad folder), UnavailableError (no agent library),
  /// DeviceError (no room).
  static std::unique_ptr<Session> Start(const SessionOptions& options);
  /// Without Finish nothing is written; the folders that Start made go away.
  virtual ~Session() = default;

  virtual const std::string& run_id() const = 0;
  virtual const std::filesystem::path& run_dir() const = 0;
  /// Where raw records are kept meanwhile, on disk.
  virtual const std::filesystem::path& spool_dir() const = 0;
  /// Variables that a target needs, over the environment of this process: what LD_PRELOAD and the
  /// injection variables hold here already is kept. `node` names the node; empty: the host.
  virtual std::map<std::string, std::string> Environment(const std::string& node = {}) const = 0;
  virtual TellerControl& control() = 0;
  virtual void SetLevel(Level level) = 0;
  /// Follows a growing text file; `name` is what the trace calls it, for example
  /// 'logs/node0.stdout.log'.
  virtual void AddLogFile(const std::string& node, const std::string& name,
                          const std::filesystem::path& path,
                          const LogFollower::Options& options = {}) = 0;
  /// Follows every text file that matches a shell pattern, from now on.
  virtual void AddLogPattern(const std::string& pattern) = 0;
  /// A counter of the caller's own, for the trace file.
  virtual void AddStat(const trace::Stat& stat) = 0;
  /// Exchanges with other hosts' collectors, for the trace file.
  virtual void AddProbes(const std::vector<trace::ClockProbe>& probes) = 0;
  /// Processes seen so far, with the ranks known by now.
  virtual std::vector<trace::ProcessInfo> Processes() = 0;
  /// Records drained so far.
  virtual uint64_t RecordCount() const = 0;
  /// Processor time of the draining and log threads so far.
  virtual int64_t DrainCpuNs() const = 0;

  /// Switches recording off, drains what is left, writes the trace file and renames it into place.
  /// Call when the targets have ended; those that live go on unharmed. Answers the counters that
  /// stand in the file. Throws DeviceError (no space): a recoverable session stays as it is then,
  /// for 'teller restore'.
  virtual std::vector<trace::Stat> Finish() = 0;
};

/// The agent library: $TELLER_AGENT_LIBRARY, else ../lib/libteller_agent.so from this program.
/// Throws UnavailableError.
std::filesystem::path FindAgentLibrary();

/// Variables that load `agent_library` into a target, over the environment of this process: what
/// LD_PRELOAD and the injection variables hold here already is kept. `node`: empty for the host.
std::map<std::string, std::string> AgentEnvironment(const std::filesystem::path& agent_library,
                                                    const std::filesystem::path& run_dir,
                                                    const std::string& node);

}  // namespace teller::collect
