#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cluster/cluster.h"
#include "src/cluster/rank_process.h"
#include "src/config/config.h"

namespace teller::launch {

/// Where requests go: an OpenAI-compatible server, reachable only from inside its node.
struct Endpoint {
  std::string url;    ///< 'http://127.0.0.1:8123'
  std::string node;   ///< run the load generator there
  std::string model;  ///< name to put into requests
};

/// Which ranges of a trace are engine steps (`steps:` of a workload part). Patterns are exact, or a
/// prefix ended by '*'; phase, batch size and ids are regular expressions with one group, matched
/// against the range's name; empty: not there.
struct StepPatterns {
  std::string range;
  std::string phase;
  std::string batch_size;
  std::string request_ids;
};

struct StartOptions {
  std::map<std::string, std::string> environment;  ///< for every rank: the agent's variables
  std::filesystem::path log_folder;                ///< gets NODE.stdout.log and NODE.stderr.log
  uint64_t seed = 0;                               ///< of the engine's weights and sampling
};

/// An engine under study, unmodified, on the nodes of a cluster.
class Workload {
 public:
  /// Reads a `workload:` part: `kind` is reference, vllm or command. Throws ConfigError with file,
  /// line and column.
  static std::unique_ptr<Workload> Read(const config::Node& part);
  virtual ~Workload() = default;

  virtual const std::string& kind() const = 0;
  virtual int ranks() const = 0;  ///< of the engine
  virtual int nodes() const = 0;  ///< that it wants
  virtual StepPatterns steps() const = 0;
  /// Throws UnavailableError where a program or environment it needs is absent (exit code 4).
  virtual void CheckAvailable() const = 0;
  /// Starts every rank. `cluster` and its nodes outlive this object.
  virtual void Start(cluster::Cluster& cluster, const StartOptions& options) = 0;
  /// Returns when requests are answered. Throws DeviceError, one line with the last log line, when
  /// a rank dies or the time is over; Error when interrupted.
  virtual void WaitReady(int64_t timeout_ns) = 0;
  /// Nothing for a command.
  virtual std::optional<Endpoint> endpoint() const = 0;
  /// The process of each rank, in order of ranks. Valid once ready.
  virtual std::vector<cluster::RankProcess> RankProcesses() const = 0;
  /// One line about a rank that ended by itself; nothing while all live.
  virtual std::optional<std::string> Failure() = 0;
  /// Waits for a command to end by itself; nothing when the time is over or for a service.
  virtual std::optional<cluster::ExitStatus> WaitEnd(int64_t timeout_ns) = 0;
  /// Ends every process in good order, by force after `grace_ns`.
  virtual void Stop(int64_t grace_ns) = 0;
};

}  // namespace teller::launch
