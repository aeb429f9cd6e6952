#include "src/reconstruct/log_attach.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/reconstruct/log_clock.h"
#include "src/reconstruct/log_line.h"
#include "src/reconstruct/log_time.h"
#include "src/reconstruct/requests.h"

namespace teller::reconstruct {
namespace {

constexpr int64_t kIdReachNs = 50'000'000;  // how far from its reading a line may belong by its ids
constexpr int64_t kAfterLastNs = 100'000'000;  // lines read so long after the last step are outside

/// A line made ready.
struct CleanedLine {
  explicit CleanedLine(const trace::LogLine& line)
      : text(CleanLine(line.text)), parsed(ParseLine(text)) {}
  CleanedLine(const CleanedLine&) = delete;
  CleanedLine& operator=(const CleanedLine&) = delete;

  const std::string text;
  const ParsedLine parsed;  // refers to `text`
};

/// The lines of one stream of a process, of which some belong to the line before: the rest of a
/// traceback, indented text.
class Continuations {
 public:
  /// The step of the line that this one continues; none where it stands for itself.
  std::optional<std::size_t> StepOf(const CleanedLine& line) {
    const ParsedLine& parsed = line.parsed;
    const bool headed = !parsed.time.empty() || !parsed.level.empty() || !parsed.process.empty();
    const bool indented = line.text.starts_with(' ');
    const bool continues = !headed && (indented || in_traceback_);
    // The line that is not indented names the exception and ends the traceback.
    in_traceback_ = parsed.message.starts_with("Traceback (most recent call last)") ||
                    (in_traceback_ && indented);
    return continues ? step_ : std::nullopt;
  }
  void Remember(std::optional<std::size_t> step) { step_ = step; }

 private:
  bool in_traceback_ = false;
  std::optional<std::size_t> step_;
};

class Attacher {
 public:
  Attacher(RunForest& run, std::map<std::string, int64_t>& stats) : run_(run), stats_(stats) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      for (const std::string& request : run.steps[i].requests) steps_of_[request].push_back(i);
    }
  }

  /// @param moment  when it was written; none: not known
  void Attach(const trace::LogLine& line, const CleanedLine& clean, RankId rank,
              std::optional<LogMoment> moment) {
    Continuations& stream = streams_[{line.process, line.file}];
    std::optional<std::size_t> step = stream.StepOf(clean);
    if (step) {
      ++stats_["log_lines_continued"];
      if (!moment) moment = LogMoment{run_.steps[*step].begin_ns, run_.steps[*step].begin_ns};
    } else {
      step = Find(clean.parsed, moment);
    }
    stream.Remember(step);
    if (!step) return;
    ++stats_["log_lines_attached"];
    StepForest& target = run_.steps[*step];
    target.logs.push_back({rank, moment->begin_ns - target.begin_ns, MaskLine(clean.parsed)});
  }

 private:
  std::optional<std::size_t> Find(const ParsedLine& parsed, std::optional<LogMoment> moment) {
    if (!moment) {
      ++stats_["log_lines_without_time"];
      return std::nullopt;
    }
    std::optional<std::size_t> step = StepById(parsed.message, *moment);
    if (step) {
      ++stats_["log_lines_by_id"];
      return step;
    }
    step = StepByTime(moment->begin_ns);
    const std::optional<std::size_t> at_end = StepByTime(moment->end_ns);
    if (step && step != at_end) {
      ++stats_["log_lines_time_too_coarse"];
      return std::nullopt;
    }
    if (!step) ++stats_["log_lines_outside_steps"];
    return step;
  }

  std::optional<std::size_t> StepByTime(int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(run_.steps, time_ns, {}, &StepForest::begin_ns);
    if (after == run_.steps.begin()) return std::nullopt;
    if (after == run_.steps.end() && time_ns > run_.steps.back().end_ns + kAfterLastNs)
      return std::nullopt;
    return static_cast<std::size_t>(after - run_.steps.begin()) - 1;
  }

  int64_t Distance(std::size_t step, const LogMoment& moment) const {
    const StepForest& s = run_.steps[step];
    return std::max<int64_t>({s.begin_ns - moment.end_ns, moment.begin_ns - s.end_ns, 0});
  }

  // The nearest step that has a request the message names; the earlier one of two.
  std::optional<std::size_t> StepById(std::string_view message, const LogMoment& moment) const {
    if (steps_of_.empty()) return std::nullopt;
    std::optional<std::size_t> best;
    for (const std::string_view id : RequestIds(message)) {
      const auto found = steps_of_.find(std::string(id));
      if (found == steps_of_.end()) continue;
      for (const std::size_t step : found->second) {
        if (!best || Distance(step, moment) < Distance(*best, moment)) best = step;
      }
    }
    return best && Distance(*best, moment) <= kIdReachNs ? best : std::nullopt;
  }

  RunForest& run_;
  std::map<std::string, int64_t>& stats_;
  std::map<std::string, std::vector<std::size_t>> steps_of_;
  std::map<std::pair<int32_t, StringId>, Continuations> streams_;
};

/// The clock of lines that came without a time of reading.
StatedClock ClockOfStatedTimes(std::span<const trace::LogLine> lines, const RunForest& run) {
  std::vector<LogTime> without_zone;
  for (const trace::LogLine& line : lines) {
    if (line.read_ns != 0 || line.realtime_ns != 0) continue;
    const auto stated = ReadLogTime(CleanedLine(line).parsed.time);
    if (stated && !stated->zone_minutes) without_zone.push_back(*stated);
  }
  return StatedClock(run.steps.front().begin_ns, run.steps.back().end_ns, without_zone);
}

/// Steps of engines whose ranges name no request get them from what the API server logs.
void FollowRequests(std::span<const trace::LogLine> lines, const ReadingClock& clock,
                    RunForest& run, std::map<std::string, int64_t>& stats) {
  std::vector<RequestLine> found;
  for (const trace::LogLine& line : lines) {
    const auto time_ns = clock.BaseTime(line);
    auto request = time_ns ? ParseRequestLine(line.text, *time_ns) : std::nullopt;
    if (request) found.push_back(std::move(*request));
  }
  if (found.empty()) return;
  stats["steps_of_other_requests"] = AssignLoggedRequests(std::move(found), run.steps);
}

}  // namespace

void AttachLogs(std::span<const trace::LogLine> lines, std::span<const trace::ClockTriple> triples,
                std::span<const trace::ProcessInfo> processes, const Alignment& alignment,
                RunForest& run, std::map<std::string, int64_t>& stats) {
  if (lines.empty()) return;
  if (run.steps.empty()) {
    stats["log_lines_without_steps"] += static_cast<int64_t>(lines.size());
    return;
  }
  const ReadingClock reading(triples, alignment);
  FollowRequests(lines, reading, run, stats);
  const StatedClock stated = ClockOfStatedTimes(lines, run);
  if (stated.zone_guessed()) stats["log_zone_guessed"] = 1;
  Attacher attacher(run, stats);
  for (const trace::LogLine& line : lines) {
    const CleanedLine clean(line);
    if (clean.parsed.message.empty()) {
      ++stats["log_lines_empty"];
      continue;
    }
    const bool known =
        line.process >= 0 && static_cast<std::size_t>(line.process) < processes.size();
    const RankId rank = known ? processes[static_cast<std::size_t>(line.process)].rank : kNoRank;
    std::optional<LogMoment> moment;
    if (const auto read_ns = reading.BaseTime(line)) {
      moment = LogMoment{*read_ns, *read_ns};
    } else if (const auto time = ReadLogTime(clean.parsed.time)) {
      moment = stated.BaseTime(*time);
    }
    attacher.Attach(line, clean, rank, moment);
  }
}

}  // namespace teller::reconstruct
