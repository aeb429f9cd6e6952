#include "src/reconstruct/requests.h"

#include <algorithm>
#include <map>
#include <utility>

namespace teller::reconstruct {
namespace {

constexpr std::string_view kPrefix = "request ";

struct Stay {
  int64_t begin_ns = 0;
  int64_t end_ns = INT64_MAX;
  std::string id;
};

std::vector<Stay> StaysOf(std::vector<RequestMark> marks) {
  std::ranges::stable_sort(marks, {}, &RequestMark::time_ns);
  std::vector<Stay> stays;
  std::map<std::string, std::size_t> open;
  for (RequestMark& mark : marks) {
    const auto found = open.find(mark.id);
    if (mark.event == RequestEvent::kLeave) {
      if (found == open.end()) continue;
      stays[found->second].end_ns = mark.time_ns;
      open.erase(found);
    } else if (found == open.end()) {
      open.emplace(mark.id, stays.size());
      stays.push_back({.begin_ns = mark.time_ns, .id = std::move(mark.id)});
    }
  }
  return stays;
}

/// 'cmpl-ID-0', the first prompt of a completion, is of the request 'cmpl-ID'.
std::string_view WithoutPromptNumber(std::string_view id) {
  const std::size_t dash = id.rfind('-');
  const bool numbered = id.starts_with("cmpl-") && dash > 4 && id.size() - dash <= 4 &&
                        id.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
  return numbered ? id.substr(0, dash) : id;
}

}  // namespace

std::optional<RequestMark> ParseRequestMark(std::string_view name, int64_t time_ns) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::size_t blank = name.find(' ');
  if (blank == std::string_view::npos || blank + 1 == name.size()) return std::nullopt;
  const std::string_view event = name.substr(0, blank);
  const std::string id(name.substr(blank + 1));
  if (event == "run") return RequestMark{time_ns, RequestEvent::kRun, id};
  if (event == "finish" || event == "abort" || event == "preempt")
    return RequestMark{time_ns, RequestEvent::kLeave, id};
  return std::nullopt;
}

std::optional<RequestMark> ParseRequestLine(std::string_view line, int64_t time_ns) {
  constexpr std::string_view kReceived = "Received request ", kGenerated = "Generated response ";
  const bool received = line.find(kReceived) != std::string_view::npos;
  const std::string_view begins_with = received ? kReceived : kGenerated;
  const std::size_t found = line.find(begins_with);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(found + begins_with.size());
  const std::string_view id = rest.substr(0, rest.find_first_of(" :"));
  rest.remove_prefix(id.size());
  if (id.empty() || rest.empty() || rest.starts_with(" (streaming delta)")) return std::nullopt;
  return RequestMark{time_ns, received ? RequestEvent::kRun : RequestEvent::kLeave,
                     std::string(WithoutPromptNumber(id))};
}

void AssignRequests(std::vector<RequestMark> marks, std::span<StepForest> steps) {
  const std::vector<Stay> stays = StaysOf(std::move(marks));  // by begin
  std::vector<const Stay*> active;
  std::size_t next = 0;
  for (StepForest& step : steps) {
    while (next < stays.size() && stays[next].begin_ns <= step.end_ns)
      active.push_back(&stays[next++]);
    std::erase_if(active, [&](const Stay* stay) { return stay->end_ns < step.begin_ns; });
    if (!step.requests.empty()) continue;
    for (const Stay* stay : active) step.requests.push_back(stay->id);
    std::ranges::sort(step.requests);
  }
}

}  // namespace teller::reconstruct
