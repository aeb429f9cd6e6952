#include "src/reconstruct/requests.h"

#include <algorithm>
#include <charconv>
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

/// The number behind the first `mark`; 0 where there is none.
int64_t NumberBehind(std::string_view text, std::string_view mark) {
  const std::size_t found = text.find(mark);
  int64_t number = 0;
  if (found == std::string_view::npos) return number;
  const std::string_view rest = text.substr(found + mark.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return std::max<int64_t>(number, 0);
}

/// A logged request in the engine.
struct Visit {
  const std::string* id;
  int64_t steps_left;
  int64_t answered_ns;
};

/// Whether one more request may have joined at this step.
bool HasRoom(const StepForest& step, const std::vector<Visit>& active) {
  if (step.phase == Phase::kDecode) return false;
  return step.batch_size == 0 || active.size() < static_cast<std::size_t>(step.batch_size);
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

std::optional<RequestLine> ParseRequestLine(std::string_view line, int64_t time_ns) {
  constexpr std::string_view kReceived = "Received request ", kGenerated = "Generated response ";
  const bool received = line.find(kReceived) != std::string_view::npos;
  const std::string_view begins_with = received ? kReceived : kGenerated;
  const std::size_t found = line.find(begins_with);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(found + begins_with.size());
  const std::string_view id = rest.substr(0, rest.find_first_of(" :"));
  rest.remove_prefix(id.size());
  if (id.empty() || rest.empty() || rest.starts_with(" (streaming delta)")) return std::nullopt;
  return RequestLine{time_ns, !received, std::string(received ? WithoutPromptNumber(id) : id),
                     received ? NumberBehind(rest, "max_tokens=") : 0};
}

int64_t AssignLoggedRequests(std::vector<RequestLine> lines, std::span<StepForest> steps) {
  std::ranges::stable_sort(lines, {}, &RequestLine::time_ns);
  std::map<std::string, int64_t> answered_ns;
  for (const RequestLine& line : lines) {
    if (line.answered) answered_ns.try_emplace(line.id, line.time_ns);
  }
  std::erase_if(lines, [](const RequestLine& line) { return line.answered; });
  std::vector<Visit> active;
  std::size_t next = 0;
  int64_t differing = 0;
  for (StepForest& step : steps) {
    std::erase_if(active, [&](const Visit& visit) {
      return visit.steps_left == 0 || visit.answered_ns < step.begin_ns;
    });
    while (next < lines.size() && lines[next].time_ns <= step.begin_ns && HasRoom(step, active)) {
      const RequestLine& line = lines[next++];
      const auto answered = answered_ns.find(line.id);
      active.push_back(
          {.id = &line.id,
           .steps_left = line.max_tokens > 0 ? line.max_tokens : INT64_MAX,
           .answered_ns = answered == answered_ns.end() ? INT64_MAX : answered->second});
    }
    for (Visit& visit : active) --visit.steps_left;
    if (!step.requests.empty()) continue;
    for (const Visit& visit : active) step.requests.push_back(*visit.id);
    std::ranges::sort(step.requests);
    differing +=
        step.batch_size != 0 && step.batch_size != static_cast<int32_t>(step.requests.size()) ? 1
                                                                                              : 0;
  }
  return lines.empty() ? 0 : differing;
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
