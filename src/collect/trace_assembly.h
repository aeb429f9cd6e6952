#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/collect/line_spool.h"
#include "src/collect/traced_process.h"
#include "src/trace/trace_file.h"

namespace teller::collect {

/// What a collection has gathered by its end, on disk and in the pools that are left.
struct Gathered {
  std::string run_id;
  std::string workload;
  std::string config_yaml;
  double ns_per_tick = 1;  ///< of this machine
  std::vector<TracedProcess>& processes;
  const LineSpool& lines;
  std::vector<trace::ClockProbe> probes = {};
  std::vector<trace::Stat> stats = {};  ///< counted besides
};

/// What became of it.
struct Assembled {
  std::vector<trace::Stat> stats;  ///< as they stand in the file
  std::vector<std::string> notes;  ///< a line each, for people
};

/// Writes the trace file (docs/schema/trace.md) and closes it. Throws DeviceError (no space).
Assembled AssembleTrace(const std::filesystem::path& path, const Gathered& gathered);

/// Warns of each problem; of many only of the first ones.
void LogProblems(const std::vector<std::string>& problems);

/// Adds to the counter of that name, or begins one.
void Count(std::vector<trace::Stat>& stats, const std::string& name, const std::string& unit,
           trace::Severity severity, uint64_t count);

}  // namespace teller::collect
