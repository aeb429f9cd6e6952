#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/workload/load/request_result.h"

namespace teller::load {

/// Percentiles of one quantity in nanoseconds; -1: nothing was measured.
struct Percentiles {
  int64_t p50 = -1, p90 = -1, p99 = -1, mean = -1;
};

/// Percentiles by linear interpolation between ranks.
Percentiles PercentilesOf(std::vector<int64_t> values);

/// A whole load as its clients saw it. Percentiles are over successful requests; `itl` is over all
/// gaps between output tokens, `tpot` over the requests' means.
struct LoadSummary {
  int64_t requests = 0, failed = 0, interrupted = 0, late = 0;
  int64_t prompt_tokens = 0, output_tokens = 0;
  int64_t duration_ns = 0;  ///< first begin to last end
  double requests_per_s = 0, output_tokens_per_s = 0;
  Percentiles ttft, tpot, itl, e2e;
};

LoadSummary Summarize(std::span<const RequestResult> results, int64_t late);

/// A line of load.jsonl (docs/schema/run_folder.md).
std::string ToJsonLine(const RequestResult& result);
/// {"summary":{...}} in one line.
std::string ToJsonLine(const LoadSummary& summary);
/// For people.
std::string ToText(const LoadSummary& summary);

}  // namespace teller::load
