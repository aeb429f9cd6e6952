#pragma once

#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct BenchMicroOptions {
  int repetitions = 10;
  std::string filter = ".";  ///< regular expression over the names of teller-benchmarks
  bool json = false;
};

struct BenchOverheadOptions {
  std::string config = "experiments/tracing_overhead.yaml";
  std::vector<std::string> overrides;
  std::string workload;  ///< only the one of that name; empty: all
  std::string output = "results/tracing_overhead";
  double limit_s = 0;  ///< of the whole; 0: as the file says
  bool json = false;
};

void AddBenchCommand(CLI::App& app);

/// Starts teller-benchmarks, which stands beside this program, and prints median, least and largest
/// of each measure over the repetitions, interleaved at random. About two minutes for everything.
/// Throws UnavailableError where teller-benchmarks is absent, DeviceError where it fails.
void RunBenchMicro(const BenchMicroOptions& options);

/// Runs an overhead experiment (docs/overhead.md), prints its table and writes it into a folder.
/// Throws as experiment::RunOverhead does.
void RunBenchOverhead(const BenchOverheadOptions& options);

}  // namespace teller::cli
