#include "src/workload/load/load_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/core/clock.h"
#include "src/core/text_table.h"

namespace teller::load {
namespace {

using nlohmann::ordered_json;

int64_t PercentileOf(const std::vector<int64_t>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = at - static_cast<double>(below);
  const double gap = static_cast<double>(sorted[above] - sorted[below]);
  return sorted[below] + static_cast<int64_t>(std::llround(weight * gap));
}

ordered_json ToJson(const Percentiles& p) {
  return {{"p50_ns", p.p50}, {"p90_ns", p.p90}, {"p99_ns", p.p99}, {"mean_ns", p.mean}};
}

void Append(std::vector<int64_t>& values, int64_t value) {
  if (value >= 0) values.push_back(value);
}

std::string Cell(int64_t duration_ns) {
  return duration_ns < 0 ? "-" : FormatDuration(duration_ns);
}

}  // namespace

Percentiles PercentilesOf(std::vector<int64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.p50 = PercentileOf(values, 0.5),
          .p90 = PercentileOf(values, 0.9),
          .p99 = PercentileOf(values, 0.99),
          .mean = std::llround(sum / static_cast<double>(values.size()))};
}

LoadSummary Summarize(std::span<const RequestResult> results, int64_t late) {
  LoadSummary summary = {.requests = static_cast<int64_t>(results.size()), .late = late};
  std::vector<int64_t> ttft, tpot, itl, e2e;
  int64_t begin_ns = INT64_MAX, end_ns = 0;
  for (const RequestResult& result : results) {
    begin_ns = std::min(begin_ns, result.begin_ns);
    end_ns = std::max(end_ns, result.end_ns);
    if (!result.ok()) {
      ++(result.interrupted() ? summary.interrupted : summary.failed);
      continue;
    }
    summary.prompt_tokens += result.prompt_tokens;
    summary.output_tokens += result.output_tokens;
    Append(ttft, result.ttft_ns());
    Append(tpot, result.tpot_ns());
    Append(e2e, result.end_ns - result.begin_ns);
    for (std::size_t i = 1; i < result.token_ns.size(); ++i)
      Append(itl, result.token_ns[i] - result.token_ns[i - 1]);
  }
  if (end_ns > begin_ns) {
    summary.duration_ns = end_ns - begin_ns;
    const double seconds = static_cast<double>(summary.duration_ns) * 1e-9;
    summary.requests_per_s = static_cast<double>(ttft.size()) / seconds;
    summary.output_tokens_per_s = static_cast<double>(summary.output_tokens) / seconds;
  }
  summary.ttft = PercentilesOf(std::move(ttft));
  summary.tpot = PercentilesOf(std::move(tpot));
  summary.itl = PercentilesOf(std::move(itl));
  summary.e2e = PercentilesOf(std::move(e2e));
  return summary;
}

std::string ToJsonLine(const RequestResult& result) {
  ordered_json line = {{"request", result.index},
                       {"id", result.id},
                       {"begin_ns", result.begin_ns},
                       {"ttft_ns", result.ttft_ns()},
                       {"tpot_ns", result.tpot_ns()},
                       {"end_ns", result.end_ns},
                       {"prompt_tokens", result.prompt_tokens},
                       {"output_tokens", result.output_tokens},
                       {"status", result.status}};
  if (!result.ok()) line["reason"] = result.reason;
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string ToJsonLine(const LoadSummary& summary) {
  const ordered_json inner = {{"requests", summary.requests},
                              {"failed", summary.failed},
                              {"interrupted", summary.interrupted},
                              {"late", summary.late},
                              {"prompt_tokens", summary.prompt_tokens},
                              {"output_tokens", summary.output_tokens},
                              {"duration_ns", summary.duration_ns},
                              {"requests_per_s", summary.requests_per_s},
                              {"output_tokens_per_s", summary.output_tokens_per_s},
                              {"ttft", ToJson(summary.ttft)},
                              {"tpot", ToJson(summary.tpot)},
                              {"itl", ToJson(summary.itl)},
                              {"e2e", ToJson(summary.e2e)}};
  return ordered_json({{"summary", inner}}).dump();
}

std::string ToText(const LoadSummary& summary) {
  char head[200];
  std::snprintf(
      head, sizeof head,
      "%ld requests (%ld failed, %ld late) in %s: %.2f requests/s, %.1f output tokens/s\n",
      static_cast<long>(summary.requests), static_cast<long>(summary.failed),
      static_cast<long>(summary.late), FormatDuration(summary.duration_ns).c_str(),
      summary.requests_per_s, summary.output_tokens_per_s);
  TextTable table({"", "p50", "p90", "p99", "mean"});
  const auto add = [&table](const char* name, const Percentiles& p) {
    table.AddRow({name, Cell(p.p50), Cell(p.p90), Cell(p.p99), Cell(p.mean)});
  };
  add("time to first token", summary.ttft);
  add("time per output token", summary.tpot);
  add("between tokens", summary.itl);
  add("end to end", summary.e2e);
  return head + table.ToText();
}

}  // namespace teller::load
