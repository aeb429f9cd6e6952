#include "src/cluster/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "src/core/error.h"

namespace teller::cluster {
namespace {

constexpr int64_t kIpTimeoutNs = 20'000'000'000;
constexpr int64_t kAskTimeoutNs = 2'000'000'000;
constexpr int64_t kIdleMs = 500;

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string NodeAddress(int node) { return fmt::format("10.77.0.{}", node + 1); }

std::string LinkName(const std::string& run_id, int peer) {
  return InterfaceName(run_id, fmt::format("v{}", peer));
}

std::string TapName(const std::string& run_id, int peer) {
  return InterfaceName(run_id, fmt::format("t{}", peer));
}

std::vector<std::string> IpCommands(const Cluster& cluster, std::size_t node) {
  const int self = static_cast<int>(node);
  std::vector<std::string> commands{"link set lo up"};
  for (int peer = 0; peer < static_cast<int>(cluster.size()); ++peer) {
    if (peer == self) continue;
    const std::string link = LinkName(cluster.run_id(), peer);
    // The lower node makes the pair; nodes are configured in order, so the higher one finds it
    // there.
    if (self < peer) {
      commands.push_back(fmt::format("link add {} type veth peer name {} netns {}", link,
                                     LinkName(cluster.run_id(), self),
                                     cluster.node(static_cast<std::size_t>(peer)).holder()));
    }
    commands.push_back(fmt::format("addr add {}/32 dev {}", NodeAddress(self), link));
    commands.push_back(fmt::format("link set {} up", link));
    commands.push_back(
        fmt::format("route add {}/32 dev {} src {}", NodeAddress(peer), link, NodeAddress(self)));
  }
  return commands;
}

std::string ConfigureNode(Cluster& cluster, std::size_t node,
                          const std::vector<std::string>& commands) {
  const std::filesystem::path batch = cluster.run_dir() / fmt::format("ip-{}", node);
  const std::filesystem::path errors = cluster.run_dir() / fmt::format("ip-{}.errors", node);
  {
    std::ofstream file(batch);
    for (const std::string& command : commands) file << command << '\n';
  }
  std::string problem;
  try {
    const auto process = cluster.node(node).Spawn(
        {.argv = {"ip", "-batch", batch.string()}, .stdout_file = errors, .stderr_file = errors});
    const auto status = process->Wait(kIpTimeoutNs);
    if (!status) problem = "ip did not end within 20 s";
    if (status && status->ShellCode() != 0) problem = "ip: " + FirstLine(errors);
  } catch (const Error& error) {
    problem = error.what();
  }
  std::filesystem::remove(batch);
  std::filesystem::remove(errors);
  return problem;
}

std::optional<double> RoundTripUs(Cluster& cluster, std::size_t node) {
  const std::filesystem::path answer = cluster.run_dir() / fmt::format("ss-{}", node);
  try {
    const auto process = cluster.node(node).Spawn(
        {.argv = {"ss", "-tinH", "state", "established", "dst", "10.77.0.0/16"},
         .stdout_file = answer,
         .stderr_file = answer});
    if (!process->Wait(kAskTimeoutNs)) process->Stop(0);
  } catch (const Error&) {
    return std::nullopt;  // no `ss` here, or the node is going
  }
  std::vector<double> trips_us;
  std::ifstream file(answer);
  // A connection is a line of words; one that nothing came over lately has an old round trip.
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    double trip_us = -1;
    int64_t idle_ms = 0;
    for (std::string word; words >> word;) {
      if (word.starts_with("rtt:")) trip_us = std::atof(word.c_str() + 4) * 1000;
      if (word.starts_with("lastrcv:")) idle_ms = std::atoll(word.c_str() + 8);
    }
    if (trip_us >= 0 && idle_ms < kIdleMs) trips_us.push_back(trip_us);
  }
  std::filesystem::remove(answer);
  if (trips_us.empty()) return std::nullopt;
  const auto middle = trips_us.begin() + static_cast<std::ptrdiff_t>(trips_us.size() / 2);
  std::nth_element(trips_us.begin(), middle, trips_us.end());
  return *middle;
}

int64_t RetransmittedSegments(const Node& node) {
  std::ifstream file(fmt::format("/proc/{}/net/snmp", node.holder()));
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Tcp:")) continue;
    std::istringstream words(line);
    std::vector<std::string> row{std::istream_iterator<std::string>(words), {}};
    if (names.empty()) {  // the first of the two lines names the columns
      names = std::move(row);
      continue;
    }
    const auto found = std::find(names.begin(), names.end(), "RetransSegs");
    const auto column = static_cast<std::size_t>(found - names.begin());
    return column < row.size() ? std::atoll(row[column].c_str()) : 0;
  }
  return 0;
}

}  // namespace teller::cluster
