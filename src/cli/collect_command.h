#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct CollectOptions {
  std::string output = "trace.h5";
  std::string level = "full";
  std::string sources = "nvtx,torch,cupti,cpu-stream";
  bool shapes = false;              ///< keep the shapes of operators' inputs
  std::string graphs = "nodes";     ///< CUDA graphs: an event a node, or 'whole'
  double duration_s = 0;            ///< 0: until the command ends
  uint64_t max_bytes = 0;           ///< of raw records and log lines; 0: no limit
  std::vector<std::string> follow;  ///< shell patterns of log files
  std::string rendezvous;           ///< 'HOST:PORT' where collectors of several hosts meet
  bool force = false;
  std::string run_dir;
  std::string control;  ///< 'on', 'off' or 'status' of a collection that runs already
  std::string run_id;
  bool json = false;
  std::vector<std::string> command;
};

void AddCollectCommand(CLI::App& app, int& exit_code);

/// Answers the exit code: the command's own once it has started.
int RunCollect(const CollectOptions& options);

}  // namespace teller::cli
