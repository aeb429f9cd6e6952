#pragma once

#include <string>

#include "src/cli/command_line.h"

namespace teller::cli {

struct BenchMicroOptions {
  int repetitions = 10;
  std::string filter = ".";  ///< regular expression over the names of teller-benchmarks
  bool json = false;
};

void AddBenchCommand(CLI::App& app);

/// Starts teller-benchmarks, which stands beside this program, and prints median, least and largest
/// of each measure over the repetitions, interleaved at random. About two minutes for everything.
/// Throws UnavailableError where teller-benchmarks is absent, DeviceError where it fails.
void RunBenchMicro(const BenchMicroOptions& options);

}  // namespace teller::cli
