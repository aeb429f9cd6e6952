#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/cluster/channel.h"
#include "src/cluster/cluster.h"
#include "src/cluster/process_table.h"
#include "src/core/error.h"

namespace teller::cluster {
namespace {

namespace fs = std::filesystem;

/// Descriptors handed to a new process; closed here at the end.
class StandardFiles {
 public:
  explicit StandardFiles(const ProcessSpec& process) {
    fds_[0] = process.inherit_stdin ? dup(0) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    fds_[1] = Output(process.stdout_file, 1);
    fds_[2] = Output(process.stderr_file, 2);
  }
  ~StandardFiles() {
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  StandardFiles(const StandardFiles&) = delete;
  StandardFiles& operator=(const StandardFiles&) = delete;

  std::span<const int> fds() const { return fds_; }

 private:
  static int Output(const fs::path& path, int inherited) {
    if (path.empty()) return dup(inherited);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
      throw DeviceError(fmt::format("open log {}: {}", path.string(), std::strerror(errno)));
    return fd;
  }

  int fds_[3] = {-1, -1, -1};
};

[[noreturn]] void FailSpawn(const std::string& node, const std::string& program, int error) {
  const std::string message =
      fmt::format("start '{}' on {}: {}", program, node, std::strerror(error));
  if (error == ENOENT) throw UnavailableError(message);
  throw DeviceError(message);
}

}  // namespace

Node::Node(NodeSpec spec, int index, std::string address, std::string interface,
           std::shared_ptr<Channel> channel)
    : spec_(std::move(spec)),
      index_(index),
      address_(std::move(address)),
      interface_(std::move(interface)),
      channel_(std::move(channel)) {}

Node::~Node() = default;

pid_t Node::holder() const { return channel_->holder(); }

std::unique_ptr<Process> Node::Spawn(const ProcessSpec& process) {
  if (process.argv.empty()) throw ConfigError("start a process: its command is empty");
  std::map<std::string, std::string> environment = process.environment;
  environment["TELLER_NODE"] = name();
  const StandardFiles files(process);
  const nlohmann::json request = {{"op", "spawn"},
                                  {"argv", process.argv},
                                  {"environment", environment},
                                  {"folder", process.working_folder.string()},
                                  {"batch", process.sched_batch},
                                  {"cpu", cpu()}};
  auto answer = channel_->Ask(request, files.fds());
  if (!answer) {
    throw DeviceError(fmt::format("start '{}' on {}: the node has gone", process.argv[0], name()));
  }
  if (const auto error = answer->body.find("error"); error != answer->body.end()) {
    FailSpawn(name(), process.argv[0], error->get<int>());
  }
  if (answer->fds.size() != 1) FailSpawn(name(), process.argv[0], EPROTO);
  return std::unique_ptr<Process>(new Process(channel_, answer->body.at("pid").get<pid_t>(),
                                              answer->body.at("start_ticks").get<uint64_t>(),
                                              answer->fds[0]));
}

int Node::OpenTap(const std::string& name) {
  if (interface_ == "lo") {
    throw UnavailableError(
        fmt::format("TAP device on {}: the node has no network of its own", this->name()));
  }
  auto answer = channel_->Ask({{"op", "tap"}, {"name", name}});
  if (answer && answer->fds.size() == 1) return answer->fds[0];
  const int error = answer ? answer->body.value("error", EPROTO) : ESRCH;
  throw UnavailableError(
      fmt::format("TAP device {} on {}: {}", name, this->name(), std::strerror(error)));
}

std::vector<pid_t> Node::Processes() const { return Descendants(holder()); }

}  // namespace teller::cluster
