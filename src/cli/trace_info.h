#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/reconstruct/clock.h"
#include "src/trace/trace_file.h"

namespace teller::cli {

/// What `teller info` says of one process.
struct ProcessSummary {
  trace::ProcessInfo info;
  std::array<int64_t, trace::kLayerCount> counts{};  ///< by Layer
};

/// How device items find the host call that enqueued them, by (process, correlation).
struct LinkSummary {
  int64_t with_launch = 0;
  int64_t without_launch = 0;
  int64_t most_per_launch = 0;
};

/// What a trace file holds, in numbers.
struct TraceSummary {
  std::string schema_version;
  std::string run_id, workload;
  bool complete = false;
  int64_t duration_ns = 0;  ///< first begin to last end over all processes, on the aligned clock
  std::vector<ProcessSummary> processes;
  std::map<std::string, int64_t> device_kinds;  ///< kernel, memcpy, memset, graph, sync
  LinkSummary links;
  std::map<std::string, int64_t> source_counts;  ///< by category or table as named in the source
  int64_t logs = 0;
  reconstruct::Alignment clock;
  std::vector<trace::Stat> stats;
  std::vector<std::string> problems;  ///< what `--check` found, empty where all is well
};

/// Reads a whole trace, one process at a time. Throws DataError.
TraceSummary SummarizeTrace(const std::filesystem::path& path);

/// The JSON of docs/design.md, section 12; what `teller import --json` prints too.
nlohmann::json ToJson(const TraceSummary& summary);
/// The same for people.
std::string ToText(const TraceSummary& summary);

}  // namespace teller::cli
