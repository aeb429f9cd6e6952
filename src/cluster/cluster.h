#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace teller::cluster {

/// How nodes are made on one machine. kAuto takes namespaces where the machine allows them, else
/// loopback.
enum class Mode { kAuto, kNamespaces, kLoopback };

struct NodeSpec {
  std::string name;             ///< letters, digits, '-'; unique in the cluster
  int64_t clock_offset_ns = 0;  ///< moves CLOCK_MONOTONIC by a time namespace; 0: none
  int cpu = -1;  ///< processes of the node are bound to this processor; -1: not bound
};

struct ClusterSpec {
  std::string run_id;
  std::vector<NodeSpec> nodes;
  Mode mode = Mode::kAuto;
};

struct ProcessSpec {
  std::vector<std::string> argv;                   ///< argv[0] is searched in PATH
  std::map<std::string, std::string> environment;  ///< over the runner's own
  std::filesystem::path stdout_file;               ///< appended to; empty: inherited
  std::filesystem::path stderr_file;               ///< appended to; empty: inherited
  std::filesystem::path working_folder;            ///< empty: the runner's
  bool sched_batch = false;                        ///< SCHED_BATCH, as engine ranks need
  bool inherit_stdin = false;                      ///< else /dev/null
};

/// How a process ended, as waitpid reports it.
struct ExitStatus {
  int code = 0;    ///< valid where signal is 0
  int signal = 0;  ///< the signal that ended it
  /// 128 + n for a signal, else the code.
  int ShellCode() const { return signal != 0 ? 128 + signal : code; }
  std::string Describe() const;  ///< 'exit code 1', 'killed by SIGKILL'
};

class Channel;

/// A process on a node. It leads its own session and process group and dies with the runner.
/// Dropping the handle kills nothing; the cluster's end does. Safe to use from several threads.
class Process {
 public:
  pid_t pid() const { return pid_; }
  uint64_t start_ticks() const { return start_ticks_; }
  /// Nothing while it runs.
  std::optional<ExitStatus> Poll();
  /// Waits at most `timeout_ns` (negative: for ever) or until a signal came to the runner.
  std::optional<ExitStatus> Wait(int64_t timeout_ns);
  /// Sends a signal to the process alone; nothing happens when it has ended.
  void Signal(int signal_number);
  /// Sends a signal to its whole process group.
  void SignalGroup(int signal_number);
  /// SIGTERM to the group, SIGKILL after `grace_ns`; waits for the end.
  ExitStatus Stop(int64_t grace_ns);
  ~Process();

 private:
  friend class Node;
  Process(std::shared_ptr<Channel> channel, pid_t pid, uint64_t start_ticks, int pidfd);

  std::shared_ptr<Channel> channel_;
  pid_t pid_;
  uint64_t start_ticks_;
  int pidfd_;
  std::mutex mutex_;  // guards status_
  std::optional<ExitStatus> status_;
};

/// One node: a network and mount namespace with its own address and private /dev/shm, or plain
/// loopback.
class Node {
 public:
  const std::string& name() const { return spec_.name; }
  int index() const { return index_; }
  const std::string& address() const { return address_; }  ///< IPv4 that other nodes reach it by
  const std::string& interface() const { return interface_; }  ///< for GLOO_SOCKET_IFNAME
  int64_t clock_offset_ns() const { return spec_.clock_offset_ns; }
  int cpu() const { return spec_.cpu; }
  /// The process that holds the node's namespaces.
  pid_t holder() const;
  /// Starts a process on the node, with TELLER_NODE set. Throws UnavailableError where argv[0] is
  /// not found, DeviceError where it cannot be started.
  std::unique_ptr<Process> Spawn(const ProcessSpec& process);
  /// Makes a TAP device on the node. It lives as long as the answered descriptor, which the caller
  /// owns and which does not block. Throws UnavailableError where nodes have no network of their
  /// own or the kernel has no TAP.
  int OpenTap(const std::string& name);
  /// Live processes that were started on the node, with all their descendants; the holder is not
  /// among them.
  std::vector<pid_t> Processes() const;
  ~Node();

 private:
  friend class Cluster;
  Node(NodeSpec spec, int index, std::string address, std::string interface,
       std::shared_ptr<Channel> channel);

  NodeSpec spec_;
  int index_;
  std::string address_;
  std::string interface_;
  std::shared_ptr<Channel> channel_;
};

class Journal;
class RunFolder;

/// Nodes on this machine and the run's own folder. Everything started on them ends with this
/// object, also when the runner is killed; what the kernel does not undo by itself stands in the
/// journal (journal.h, restore.h).
class Cluster {
 public:
  /// Undoes leftovers of dead runners, then makes the nodes. Throws ConfigError (names, number of
  /// nodes), UnavailableError (namespaces asked for, not allowed here), DeviceError.
  static std::unique_ptr<Cluster> Create(const ClusterSpec& spec);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const std::string& run_id() const { return run_id_; }
  bool has_namespaces() const { return has_namespaces_; }
  std::size_t size() const { return nodes_.size(); }
  Node& node(std::size_t index) { return *nodes_.at(index); }
  const Node& node(std::size_t index) const { return *nodes_.at(index); }
  /// The node of that name; throws ConfigError.
  Node& node(const std::string& name);
  /// /dev/shm/teller-RUN_ID: a tmpfs folder at the same path on the host and on every node, removed
  /// at the end.
  const std::filesystem::path& run_dir() const;
  /// What the machine did not allow, for the manifest: 'no root: nodes on loopback'.
  const std::vector<std::string>& limits() const { return limits_; }
  Journal& journal() { return *journal_; }

 private:
  Cluster();
  void StartNodes(const ClusterSpec& spec, bool namespaces);
  void ConnectNodes();
  void End();

  std::string run_id_;
  bool has_namespaces_ = false;
  std::vector<std::string> limits_;
  pid_t hub_ = 0;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<RunFolder> folder_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Ours among the machine's names: 'teller' + six digits of the run's hash + a suffix of at most
/// three characters.
std::string InterfaceName(const std::string& run_id, const std::string& suffix);

}  // namespace teller::cluster
