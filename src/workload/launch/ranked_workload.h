#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/workload/launch/workload.h"

namespace teller::launch {

/// What the kinds of workload share: processes with log files, their deaths, the wait for a line
/// that says ready.
class RankedWorkload : public Workload {
 public:
  const std::string& kind() const override { return kind_; }
  void WaitReady(int64_t timeout_ns) override;
  std::optional<std::string> Failure() override;
  std::optional<cluster::ExitStatus> WaitEnd(int64_t timeout_ns) override;
  void Stop(int64_t grace_ns) override;

 protected:
  explicit RankedWorkload(std::string kind) : kind_(std::move(kind)) {}

  struct Launched {
    std::string what;  ///< 'rank 1', for people
    cluster::Node* node;
    std::unique_ptr<cluster::Process> process;
    std::filesystem::path stdout_log, stderr_log;
  };

  /// Starts a process with logs LOG_FOLDER/NODE.{stdout,stderr}.log (NODE.WHAT... where a node has
  /// several).
  void Launch(const std::string& what, cluster::Node& node, cluster::ProcessSpec process,
              const StartOptions& options);
  /// Text in the first process's log that means ready; empty: ready at once.
  void set_ready_text(std::string text) { ready_text_ = std::move(text); }
  const std::vector<Launched>& launched() const { return launched_; }
  static cluster::RankProcess AsRank(int rank, const cluster::Node& node, pid_t pid,
                                     uint64_t start_ticks);

 private:
  std::string kind_;
  std::string ready_text_;
  std::vector<Launched> launched_;
};

std::unique_ptr<Workload> ReadReference(const config::Node& part);  ///< reference.cc
std::unique_ptr<Workload> ReadVllm(const config::Node& part);       ///< vllm.cc
std::unique_ptr<Workload> ReadCommand(const config::Node& part);    ///< command.cc

/// A TCP port for a process on `node`: `preferred` where nodes have networks of their own, else one
/// that is free now.
int ChoosePort(const cluster::Cluster& cluster, int preferred);

}  // namespace teller::launch
