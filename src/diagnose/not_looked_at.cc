#include "src/diagnose/not_looked_at.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace teller::diagnose {
namespace {

constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"trace_incomplete", "the collector was killed: the trace may lack its end"},
    {"events_without_timing", "events whose source gives no time"},
    {"events_backwards", "events that ended before they began, taken as of length zero"},
    {"ranges_across_threads", "ranges that ended on another thread than they began on"},
    {"events_too_deep", "events nested deeper than 65,535"},
    {"events_cut_to_parent", "events that outlasted what they began in, cut at its end"},
    {"events_cut_to_sibling", "events that reached into the next one, cut at its begin"},
    {"events_of_processes_without_steps", "events of processes that ran no step"},
    {"host_events_outside_steps", "host events between steps"},
    {"device_items_outside_steps", "device items launched between steps"},
    {"device_items_without_launch",
     "device items whose launch is not in the trace, placed by their begin"},
    {"steps_of_a_rank_unmatched", "steps of one rank that no other rank's step matches"},
    {"collectives_across_steps", "collectives whose ranks were in different steps"},
    {"processes_of_a_rank_taken", "second processes of a rank"},
    {"processes_with_steps_without_rank", "processes with steps but without a rank"},
    {"ranks_by_order", "processes whose rank is only their order: none states one"},
    {"whole_trace_is_one_step",
     "no range of the trace is an engine's step, so all of it was taken as one"},
    {"log_lines_outside_steps", "log lines written outside all steps"},
    {"log_lines_time_too_coarse", "log lines whose stated time several steps share"},
    {"log_lines_without_steps", "log lines of a trace without events: nothing is judged by them"},
    {"log_lines_without_time", "log lines of which nothing says when they were written"},
};
constexpr std::string_view kLostPrefix = "trace_";

std::string WhyOf(std::string_view counter) {
  const auto found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                  [&](const auto& reason) { return reason.first == counter; });
  if (found != std::end(kReasons)) return std::string(found->second);
  if (!counter.starts_with(kLostPrefix)) return {};
  return "lost while the trace was recorded or imported (" +
         std::string(counter.substr(kLostPrefix.size())) + ")";
}

}  // namespace

std::vector<NotLookedAt> FindNotLookedAt(
    std::span<const std::pair<std::string, int64_t>> counters) {
  std::vector<NotLookedAt> found;
  for (const auto& [counter, count] : counters) {
    std::string why = count > 0 ? WhyOf(counter) : std::string();
    if (!why.empty()) found.push_back({counter, count, std::move(why)});
  }
  return found;
}

}  // namespace teller::diagnose
