#include "src/experiment/load_process.h"

#include <fmt/format.h>
#include <signal.h>

#include <fstream>

#include "src/core/error.h"
#include "src/workload/launch/program.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kGraceNs = 5'000'000'000;
constexpr int64_t kSeconds = 86'400;  // longer than any run: Stop ends it

std::string LastLine(const fs::path& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

LoadProcess::LoadProcess(const LoadConfig& config, const launch::Endpoint& endpoint,
                         cluster::Cluster& cluster, uint64_t seed, const fs::path& output,
                         const fs::path& log_folder)
    : errors_(log_folder / "load.stderr.log") {
  std::vector<std::string> argv = {launch::FindProgram("teller-load").string(),
                                   "--url",
                                   endpoint.url,
                                   "--model",
                                   endpoint.model,
                                   "--concurrency",
                                   std::to_string(config.concurrency),
                                   "--seed",
                                   std::to_string(seed),
                                   "--duration",
                                   std::to_string(kSeconds),
                                   "--output",
                                   output.string()};
  argv.insert(argv.end(), config.arguments.begin(), config.arguments.end());
  process_ = cluster.node(endpoint.node)
                 .Spawn({.argv = std::move(argv),
                         .stdout_file = log_folder / "load.stdout.log",
                         .stderr_file = errors_});
}

void LoadProcess::CheckRunning() {
  if (const auto status = process_->Poll()) {
    throw DeviceError(fmt::format("the load generator ended during the run: {}: {}",
                                  status->Describe(), LastLine(errors_)));
  }
}

void LoadProcess::Stop() {
  process_->Signal(SIGINT);
  if (!process_->Wait(kGraceNs)) process_->Stop(kGraceNs);
}

}  // namespace teller::experiment
