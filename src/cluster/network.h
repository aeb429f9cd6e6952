#pragma once

#include <string>
#include <vector>

#include "src/cluster/cluster.h"

namespace teller::cluster {

/// 10.77.0.1 is node 0.
std::string NodeAddress(int node);

/// The interface by which a node reaches `peer`.
std::string LinkName(const std::string& run_id, int peer);

/// The TAP device by which a node reaches `peer` through the packet switch.
std::string TapName(const std::string& run_id, int peer);

/// `ip` commands that give a node its loopback, a link to every node after it and a route to each
/// peer. Every pair of nodes has a veth of its own and every address is a /32, so that a peer's
/// traffic can be moved to another link.
std::vector<std::string> IpCommands(const Cluster& cluster, std::size_t node);

/// Runs the commands inside the node.  @return empty, or what went wrong
std::string ConfigureNode(Cluster& cluster, std::size_t node,
                          const std::vector<std::string>& commands);

}  // namespace teller::cluster
