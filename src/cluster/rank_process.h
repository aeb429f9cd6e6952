#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "src/core/ids.h"

namespace teller::cluster {

/// The operating-system process that carries a rank of the engine.
struct RankProcess {
  RankId rank = kNoRank;
  std::string node;             ///< name of its node
  pid_t pid = 0;                ///< as the runner sees it (nodes share the host's pid namespace)
  uint64_t start_ticks = 0;     ///< field 22 of /proc/PID/stat: tells a reused pid
  int64_t clock_offset_ns = 0;  ///< the node's CLOCK_MONOTONIC minus the runner's
};

}  // namespace teller::cluster
