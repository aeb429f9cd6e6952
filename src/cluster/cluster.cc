#include "src/cluster/cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "src/cluster/channel.h"
#include "src/cluster/holder.h"
#include "src/cluster/journal.h"
#include "src/cluster/network.h"
#include "src/cluster/process_table.h"
#include "src/cluster/restore.h"
#include "src/cluster/run_folder.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/log.h"

namespace teller::cluster {
namespace {

constexpr std::size_t kMaxNodes = 64;
constexpr int64_t kGreetingNs = 20'000'000'000;

void CheckSpec(const ClusterSpec& spec) {
  if (spec.nodes.empty() || spec.nodes.size() > kMaxNodes) {
    throw ConfigError(
        fmt::format("cluster: 1 to {} nodes are expected, found {}", kMaxNodes, spec.nodes.size()));
  }
  std::set<std::string> names;
  for (const NodeSpec& node : spec.nodes) {
    const bool plain = !node.name.empty() &&
                       std::all_of(node.name.begin(), node.name.end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '-'; });
    if (!plain || !names.insert(node.name).second) {
      throw ConfigError(fmt::format(
          "cluster: node name '{}': letters, digits and '-' are expected, each name once",
          node.name));
    }
  }
}

void ReportLeftovers() {
  for (const Leftover& leftover : RestoreLeftovers(/*dry_run=*/false)) {
    LogInfo(fmt::format("restored what run {} left: {} {}: {}", leftover.run_id, leftover.change,
                        leftover.what, leftover.outcome));
  }
}

/// Namespaces are not allowed here; the reason is kept for `limits`.
struct NoNamespaces {
  std::string reason;
};

struct SocketPair {
  int runner;
  int holder;
};

SocketPair MakeSocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    throw DeviceError(fmt::format("socket to a node: {}", std::strerror(errno)));
  }
  return {fds[0], fds[1]};
}

}  // namespace

std::string InterfaceName(const std::string& run_id, const std::string& suffix) {
  TELLER_CHECK(suffix.size() <= 3);
  return "teller" + HashHex(run_id).substr(0, 6) + suffix;
}

Cluster::Cluster() = default;

std::unique_ptr<Cluster> Cluster::Create(const ClusterSpec& spec) {
  CheckSpec(spec);
  ReportLeftovers();
  std::unique_ptr<Cluster> cluster(new Cluster());
  cluster->run_id_ = spec.run_id;
  cluster->journal_ = std::make_unique<Journal>(spec.run_id);
  cluster->folder_ = std::make_unique<RunFolder>(spec.run_id, *cluster->journal_);
  if (spec.mode == Mode::kLoopback) {
    cluster->limits_.push_back("asked for: nodes on loopback");
    cluster->StartNodes(spec, /*namespaces=*/false);
    return cluster;
  }
  try {
    cluster->StartNodes(spec, /*namespaces=*/true);
    if (geteuid() != 0) cluster->limits_.push_back("no root: nodes in user namespaces");
  } catch (const NoNamespaces& failure) {
    cluster->End();
    if (spec.mode == Mode::kNamespaces) {
      throw UnavailableError(fmt::format(
          "nodes in network namespaces: {}; run as root, or use loopback nodes", failure.reason));
    }
    cluster->limits_.push_back(fmt::format("{}: nodes on loopback ({})",
                                           geteuid() == 0 ? "no namespaces" : "no root",
                                           failure.reason));
    cluster->StartNodes(spec, /*namespaces=*/false);
  }
  return cluster;
}

void Cluster::StartNodes(const ClusterSpec& spec, bool namespaces) {
  HubSpec hub{.run_dir = folder_->path(),
              .namespaces = namespaces,
              .user_namespace = namespaces && geteuid() != 0,
              .nodes = spec.nodes,
              .sockets = {},
              .start_fd = -1};
  std::vector<std::shared_ptr<Channel>> channels;
  for (std::size_t index = 0; index < spec.nodes.size(); ++index) {
    const SocketPair pair = MakeSocketPair();
    channels.push_back(std::make_shared<Channel>(pair.runner));
    hub.sockets.push_back(pair.holder);
  }
  const SocketPair start = MakeSocketPair();
  hub.start_fd = start.holder;
  hub_ = StartHub(hub);
  for (const int socket : hub.sockets) close(socket);
  close(start.holder);
  journal_->RecordProcess(Change::kProcess, hub_);
  [[maybe_unused]] const ssize_t told = write(start.runner, "g", 1);
  close(start.runner);
  has_namespaces_ = namespaces;
  for (std::size_t index = 0; index < spec.nodes.size(); ++index) {
    const auto greeting = channels[index]->Greeting(kGreetingNs);
    if (!greeting || !greeting->contains("pid")) {
      const std::string reason =
          greeting ? greeting->value("error", "unknown answer") : "the node's holder did not start";
      if (namespaces) throw NoNamespaces{reason};
      throw DeviceError(fmt::format("node {}: {}", spec.nodes[index].name, reason));
    }
    const pid_t holder = greeting->at("pid").get<pid_t>();
    channels[index]->set_holder(holder);
    journal_->RecordProcess(Change::kProcess, holder);
    if (namespaces) {
      journal_->Record(Change::kNetwork, std::to_string(NamespaceInode(holder, "net")));
    }
    const std::string address = namespaces ? NodeAddress(static_cast<int>(index)) : "127.0.0.1";
    const std::string interface =
        namespaces && spec.nodes.size() > 1 ? LinkName(spec.run_id, index == 0 ? 1 : 0) : "lo";
    nodes_.push_back(std::unique_ptr<Node>(
        new Node(spec.nodes[index], static_cast<int>(index), address, interface, channels[index])));
  }
  if (namespaces) ConnectNodes();
}

void Cluster::ConnectNodes() {
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const std::string problem = ConfigureNode(*this, index, IpCommands(*this, index));
    if (!problem.empty()) throw NoNamespaces{problem};
  }
}

void Cluster::End() {
  for (const auto& node : nodes_) node->channel_->Close();
  nodes_.clear();
  if (hub_ == 0) return;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const pid_t ended = waitpid(hub_, nullptr, WNOHANG);
    if (ended == hub_ || (ended < 0 && errno == ECHILD)) {
      hub_ = 0;
      return;
    }
    usleep(10'000);
  }
  LogWarning(fmt::format("nodes of run {} did not end within 10 s", run_id_));
  journal_->Keep();
  hub_ = 0;
}

Cluster::~Cluster() {
  End();
  folder_.reset();
}

Node& Cluster::node(const std::string& name) {
  for (const auto& node : nodes_) {
    if (node->name() == name) return *node;
  }
  throw ConfigError(fmt::format("cluster: there is no node '{}'", name));
}

const std::filesystem::path& Cluster::run_dir() const { return folder_->path(); }

}  // namespace teller::cluster
