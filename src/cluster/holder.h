#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "src/cluster/cluster.h"

namespace teller::cluster {

/// What the process that keeps a cluster's nodes needs to know.
struct HubSpec {
  std::filesystem::path run_dir;
  bool namespaces = false;
  bool user_namespace = false;  ///< become root of a user namespace first
  std::vector<NodeSpec> nodes;
  std::vector<int> sockets;  ///< a holder's end for each node
  int start_fd = -1;         ///< nothing is changed before a byte comes here
};

/// Starts the hub: a process outside the runner's session that forks one holder per node and ends,
/// with everything started on the nodes, when the runner ends in whatever way. Each holder first
/// sends {"pid":N} or {"error":TEXT}.
///
/// A holder answers {"op":"spawn","argv":[],"environment":{},"folder":"","batch":B,"cpu":N} +
/// [stdin, stdout, stderr] with {"pid":N,"start_ticks":N} + [pidfd] or
/// {"error":ERRNO,"what":"..."}, {"op":"status","pid":N} with {"status":N}, and
/// {"op":"tap","name":TEXT} with [TAP descriptor] or {"error":ERRNO}.
/// @return the hub's pid; throws DeviceError
pid_t StartHub(const HubSpec& spec);

}  // namespace teller::cluster
