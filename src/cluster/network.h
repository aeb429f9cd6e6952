#pragma once

#include <cstdint>
#include <optional>
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

/// Median round trip, in us, of the TCP connections of a node with other nodes, as its kernel has
/// measured them lately (`ss`); nothing where there is none or it cannot be asked.
std::optional<double> RoundTripUs(Cluster& cluster, std::size_t node);

/// TCP segments that the node has sent again since it was made; 0 where that cannot be read.
int64_t RetransmittedSegments(const Node& node);

}  // namespace teller::cluster
