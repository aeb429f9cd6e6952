#include "src/workload/launch/ranked_workload.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/progress.h"
#include "src/workload/launch/log_tail.h"

namespace teller::launch {
namespace {

constexpr std::chrono::milliseconds kReadyPeriod(20);

}  // namespace

void RankedWorkload::Launch(const std::string& what, cluster::Node& node,
                            cluster::ProcessSpec process, const StartOptions& options) {
  const auto same_node = std::count_if(launched_.begin(), launched_.end(),
                                       [&](const Launched& other) { return other.node == &node; });
  const std::string stem =
      same_node == 0 ? node.name() : fmt::format("{}.{}", node.name(), same_node);
  process.stdout_file = options.log_folder / (stem + ".stdout.log");
  process.stderr_file = options.log_folder / (stem + ".stderr.log");
  Launched launched{.what = what,
                    .node = &node,
                    .process = node.Spawn(process),
                    .stdout_log = process.stdout_file,
                    .stderr_log = process.stderr_file};
  launched_.push_back(std::move(launched));
}

std::optional<std::string> RankedWorkload::Failure() {
  for (const Launched& launched : launched_) {
    const auto status = launched.process->Poll();
    if (!status) continue;
    std::string last = LastLine(launched.stderr_log);
    if (last.empty()) last = LastLine(launched.stdout_log);
    return fmt::format("{} workload: {} on {} ended ({}){}{}; its log is {}", kind_, launched.what,
                       launched.node->name(), status->Describe(), last.empty() ? "" : ": ", last,
                       launched.stderr_log.string());
  }
  return std::nullopt;
}

void RankedWorkload::WaitReady(int64_t timeout_ns) {
  if (ready_text_.empty()) return;
  TELLER_CHECK(!launched_.empty());
  LogWatch out(launched_.front().stdout_log, ready_text_),
      err(launched_.front().stderr_log, ready_text_);
  Progress progress(kind_ + " loads", /*total=*/0, "s");
  const int64_t begin_ns = MonotonicNs();
  while (!out.Seen() && !err.Seen()) {
    ThrowIfInterrupted();
    if (const auto failure = Failure()) throw DeviceError(*failure);
    const int64_t waited_ns = MonotonicNs() - begin_ns;
    if (waited_ns > timeout_ns) {
      throw DeviceError(fmt::format("{} workload: not ready after {}, last line '{}'", kind_,
                                    FormatDuration(timeout_ns),
                                    LastLine(launched_.front().stdout_log)));
    }
    progress.Update(waited_ns / 1'000'000'000);
    std::this_thread::sleep_for(kReadyPeriod);
  }
}

std::optional<cluster::ExitStatus> RankedWorkload::WaitEnd(int64_t) { return std::nullopt; }

void RankedWorkload::Stop(int64_t grace_ns) {
  // All are asked first: ranks that wait for each other end together.
  for (const Launched& launched : launched_) {
    launched.process->SignalGroup(SIGTERM);
    launched.process->SignalGroup(SIGCONT);
  }
  for (const Launched& launched : launched_) launched.process->Stop(grace_ns);
}

cluster::RankProcess RankedWorkload::AsRank(int rank, const cluster::Node& node, pid_t pid,
                                            uint64_t start_ticks) {
  return {.rank = RankId{rank},
          .node = node.name(),
          .pid = pid,
          .start_ticks = start_ticks,
          .clock_offset_ns = node.clock_offset_ns()};
}

int ChoosePort(const cluster::Cluster& cluster, int preferred) {
  if (cluster.has_namespaces()) return preferred;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  const bool bound = listener >= 0 &&
                     bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (listener >= 0) close(listener);
  if (!bound) throw DeviceError("find a free TCP port on 127.0.0.1: none");
  return ntohs(address.sin_port);
}

}  // namespace teller::launch
