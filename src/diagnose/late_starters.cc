#include "src/diagnose/late_starters.h"

#include <algorithm>
#include <map>

#include "src/diagnose/late_starts.h"
#include "src/localize/readings.h"

namespace teller::diagnose {
namespace {

using reconstruct::StepForest;

constexpr int64_t kCauseShare = 100;  // a cause is sought from a hundredth of the step on

class Summary {
 public:
  explicit Summary(const dataset::StepsFile& steps)
      : steps_(steps), clock_error_ns_(dataset::ClockErrorNs(steps)) {}

  void Add(const StepForest& step) {
    const auto least_ns = std::max(clock_error_ns_, (step.end_ns - step.begin_ns) / kCauseShare);
    for (const LateStart& start :
         FindLateStarts(step, localize::ReadStep(step),
                        {.least_ns = least_ns, .steps_begin_together = !IsWholeTrace(steps_)})) {
      ++collectives_;
      if (start.late_ns > clock_error_ns_) Add(step, start);
    }
  }

  std::vector<LateStarter> Finish() {
    std::vector<LateStarter> ranks;
    for (auto& [rank, starter] : ranks_) {
      starter.of = collectives_;
      const auto& causes = causes_[rank];
      const auto most =
          std::max_element(causes.begin(), causes.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most != causes.end()) starter.cause = most->first;
      ranks.push_back(std::move(starter));
    }
    std::stable_sort(ranks.begin(), ranks.end(), [](const LateStarter& a, const LateStarter& b) {
      return a.late_ns > b.late_ns;
    });
    return ranks;
  }

 private:
  std::string NameOf(const StepForest& step, NodeId node) const {
    const SymbolId symbol = step.nodes[Index(node)].symbol;
    return std::string(steps_.run.symbols.View(StringId{static_cast<uint32_t>(Index(symbol))}));
  }

  void Add(const StepForest& step, const LateStart& start) {
    LateStarter& starter = ranks_[start.rank];
    starter.rank = start.rank;
    ++starter.collectives;
    starter.late_ns += start.late_ns;
    if (start.cause) causes_[start.rank][NameOf(step, start.cause->node)] += start.late_ns;
    if (start.late_ns <= starter.longest_ns) return;
    starter.longest_ns = start.late_ns;
    starter.longest_step = step.engine_step;
    starter.collective = NameOf(step, start.collective);
  }

  const dataset::StepsFile& steps_;
  const int64_t clock_error_ns_;
  int64_t collectives_ = 0;
  std::map<RankId, LateStarter> ranks_;
  std::map<RankId, std::map<std::string, int64_t>> causes_;
};

}  // namespace

bool IsWholeTrace(const dataset::StepsFile& steps) {
  return std::any_of(steps.stats.begin(), steps.stats.end(),
                     [](const auto& stat) { return stat.first == "whole_trace_is_one_step"; });
}

std::vector<LateStarter> FindLateStarters(const dataset::StepsFile& steps) {
  if (!steps.clock_aligned) return {};
  Summary summary(steps);
  for (std::size_t s = 0; s < steps.run.steps.size(); ++s) {
    if (steps.forest[s] && steps.run.steps[s].ranks.size() > 1) summary.Add(steps.run.steps[s]);
  }
  return summary.Finish();
}

}  // namespace teller::diagnose
