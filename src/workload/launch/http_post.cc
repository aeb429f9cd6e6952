#include "src/workload/launch/http_post.h"

#include <fmt/format.h>

#include "src/core/error.h"
#include "src/core/interrupt.h"

namespace teller::launch {
namespace {

constexpr int64_t kPatienceNs = 65'000'000'000;
constexpr char kScript[] =
    "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], b''), timeout=60)";

}  // namespace

void PostFrom(cluster::Node& node, const std::string& url) {
  const auto post = node.Spawn({.argv = {"python3", "-c", kScript, url},
                                .stdout_file = "/dev/null",
                                .stderr_file = "/dev/null"});
  const auto status = post->Wait(kPatienceNs);
  ThrowIfInterrupted();
  if (!status || status->ShellCode() != 0) {
    post->Stop(0);
    throw DeviceError(
        fmt::format("POST {} from {}: it did not answer with success", url, node.name()));
  }
}

}  // namespace teller::launch
