#include "src/reconstruct/log_attach.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/reconstruct/log_line.h"

namespace teller::reconstruct {
namespace {

constexpr int64_t kIdReachNs = 50'000'000;  // how far from its reading a line may belong by its ids
constexpr int64_t kAfterLastNs = 100'000'000;  // lines read so long after the last step are outside

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// When a line was read, on the base clock.
class LineClock {
 public:
  LineClock(std::span<const trace::ClockTriple> triples, const Alignment& alignment)
      : alignment_(alignment), offsets_(alignment.processes.size()) {
    std::vector<std::vector<int64_t>> by_process(offsets_.size());
    for (const trace::ClockTriple& triple : triples) {
      if (triple.process < 0 || static_cast<std::size_t>(triple.process) >= by_process.size())
        continue;
      by_process[static_cast<std::size_t>(triple.process)].push_back(triple.monotonic_ns -
                                                                     triple.realtime_ns);
    }
    for (std::size_t i = 0; i < by_process.size(); ++i) {
      if (by_process[i].empty()) continue;
      offsets_[i] = Median(std::move(by_process[i]));
      if (!any_) any_ = i;
    }
  }

  int64_t BaseTime(const trace::LogLine& line) const {
    const bool known =
        line.process >= 0 && static_cast<std::size_t>(line.process) < offsets_.size();
    std::optional<std::size_t> process =
        known ? std::optional(static_cast<std::size_t>(line.process)) : std::nullopt;
    if (!process || !offsets_[*process]) process = any_ ? any_ : process;
    if (!process) return line.read_ns;
    const auto& offset_ns = offsets_[*process];
    const int64_t monotonic_ns = offset_ns ? line.realtime_ns + *offset_ns : line.read_ns;
    return alignment_.processes[*process].ToBase(monotonic_ns);
  }

 private:
  const Alignment& alignment_;
  std::vector<std::optional<int64_t>> offsets_;  // monotonic minus realtime
  std::optional<std::size_t> any_;               // a process whose clock is known
};

class Attacher {
 public:
  Attacher(RunForest& run, std::map<std::string, int64_t>& stats) : run_(run), stats_(stats) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      for (const std::string& request : run.steps[i].requests) steps_of_[request].push_back(i);
    }
  }

  void Attach(const trace::LogLine& line, RankId rank, int64_t time_ns) {
    const std::string clean = CleanLine(line.text);
    const ParsedLine parsed = ParseLine(clean);
    if (parsed.message.empty()) {
      ++stats_["log_lines_empty"];
      return;
    }
    std::optional<std::size_t> step = StepById(parsed.message, time_ns);
    if (step) ++stats_["log_lines_by_id"];
    if (!step) step = StepByTime(time_ns);
    if (!step) {
      ++stats_["log_lines_outside_steps"];
      return;
    }
    ++stats_["log_lines_attached"];
    StepForest& target = run_.steps[*step];
    target.logs.push_back({rank, time_ns - target.begin_ns, MaskLine(parsed)});
  }

 private:
  std::optional<std::size_t> StepByTime(int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(run_.steps, time_ns, {}, &StepForest::begin_ns);
    if (after == run_.steps.begin()) return std::nullopt;
    if (after == run_.steps.end() && time_ns > run_.steps.back().end_ns + kAfterLastNs)
      return std::nullopt;
    return static_cast<std::size_t>(after - run_.steps.begin()) - 1;
  }

  int64_t Distance(std::size_t step, int64_t time_ns) const {
    const StepForest& s = run_.steps[step];
    return std::max<int64_t>({s.begin_ns - time_ns, time_ns - s.end_ns, 0});
  }

  // The nearest step that has a request the message names; the earlier one of two.
  std::optional<std::size_t> StepById(std::string_view message, int64_t time_ns) const {
    if (steps_of_.empty()) return std::nullopt;
    std::optional<std::size_t> best;
    for (const std::string_view id : RequestIds(message)) {
      const auto found = steps_of_.find(std::string(id));
      if (found == steps_of_.end()) continue;
      for (const std::size_t step : found->second) {
        if (!best || Distance(step, time_ns) < Distance(*best, time_ns)) best = step;
      }
    }
    return best && Distance(*best, time_ns) <= kIdReachNs ? best : std::nullopt;
  }

  RunForest& run_;
  std::map<std::string, int64_t>& stats_;
  std::map<std::string, std::vector<std::size_t>> steps_of_;
};

}  // namespace

void AttachLogs(std::span<const trace::LogLine> lines, std::span<const trace::ClockTriple> triples,
                std::span<const trace::ProcessInfo> processes, const Alignment& alignment,
                RunForest& run, std::map<std::string, int64_t>& stats) {
  if (run.steps.empty()) return;
  const LineClock clock(triples, alignment);
  Attacher attacher(run, stats);
  for (const trace::LogLine& line : lines) {
    const bool known =
        line.process >= 0 && static_cast<std::size_t>(line.process) < processes.size();
    const RankId rank = known ? processes[static_cast<std::size_t>(line.process)].rank : kNoRank;
    attacher.Attach(line, rank, clock.BaseTime(line));
  }
}

}  // namespace teller::reconstruct
