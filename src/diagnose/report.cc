#include "src/diagnose/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/core/clock.h"
#include "src/core/text_table.h"
#include "src/diagnose/sentence.h"

namespace teller::diagnose {
namespace {

constexpr std::size_t kBlamedShown = 5;

std::string LateStartersTable(const RunDiagnosis& run) {
  TextTable table(
      {"others waited for", "collectives", "of", "together", "longest", "in step", "held up by"});
  for (const LateStarter& starter : run.late_starters) {
    table.AddRow({fmt::format("rank {}", static_cast<int32_t>(starter.rank)),
                  std::to_string(starter.collectives), std::to_string(starter.of),
                  FormatDuration(starter.late_ns), FormatDuration(starter.longest_ns),
                  std::to_string(starter.longest_step),
                  starter.cause.empty() ? "-" : starter.cause});
  }
  return table.rows().empty() ? std::string() : "\n" + table.ToText();
}

std::string NotLookedAtTable(const RunDiagnosis& run) {
  TextTable table({"not looked at", "count"});
  for (const NotLookedAt& item : run.not_looked_at)
    table.AddRow({item.why, std::to_string(item.count)});
  return table.rows().empty() ? std::string() : "\n" + table.ToText();
}

/// What a score is: how far from healthy, or what it cost.
std::string ScoreText(const RunDiagnosis& run, const StepDiagnosis& step) {
  const std::string score = run.basis == Basis::kInside
                                ? fmt::format("{:.0f} % of the step", step.score)
                                : fmt::format("score {:.1f}", step.score);
  return step.probability ? fmt::format("{}, probability {:.2f}", score, *step.probability) : score;
}

/// The largest suspect of a step that nothing settles.
std::string StandsOut(const RunDiagnosis& run) {
  const StepDiagnosis* most = nullptr;
  for (const StepDiagnosis& step : run.steps) {
    if (!step.suspects.empty() && (most == nullptr || step.score > most->score)) most = &step;
  }
  if (most == nullptr) return {};
  StepDiagnosis told = *most;
  told.abnormal = true;
  return fmt::format("What stands out most, step {} ({}): {}\n", told.engine_step,
                     ScoreText(run, told), Explain(told));
}

/// How often each (operator, rank) came first in abnormal steps.
std::string BlamedTable(const std::vector<const StepDiagnosis*>& steps) {
  struct Count {
    int64_t steps = 0, excess_ns = 0;
  };
  std::map<std::pair<std::string, RankId>, Count> counts;
  for (const StepDiagnosis* step : steps) {
    if (step->suspects.empty()) continue;
    const Suspect& first = step->suspects.front();
    Count& count = counts[{first.op, first.rank}];
    ++count.steps;
    count.excess_ns += first.expected_ns ? first.observed_ns - *first.expected_ns : 0;
  }
  std::vector<std::pair<std::pair<std::string, RankId>, Count>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.steps > b.second.steps; });
  if (rows.size() > kBlamedShown) rows.resize(kBlamedShown);
  TextTable table({"blamed operator", "rank", "steps", "above usual, mean"});
  for (const auto& [key, count] : rows) {
    table.AddRow({key.first,
                  key.second == kNoRank ? "-" : std::to_string(static_cast<int32_t>(key.second)),
                  std::to_string(count.steps), FormatDuration(count.excess_ns / count.steps)});
  }
  return table.rows().empty() ? std::string() : "\n" + table.ToText();
}

std::string Undecided(const RunDiagnosis& run) {
  const char* many = run.steps.size() == 1 ? "" : "s";
  const char* why = run.basis == Basis::kSteps && !run.steps.empty()
                        ? "no step stands out from the run's own, which proves little; looked at"
                        : "too little to tell from";
  return fmt::format("Undecided: {} {} step{}.\n{}", why, run.steps.size(), many, StandsOut(run));
}

}  // namespace

std::vector<const StepDiagnosis*> WorstSteps(const RunDiagnosis& run) {
  std::vector<const StepDiagnosis*> worst;
  for (const StepDiagnosis& step : run.steps) {
    if (step.abnormal) worst.push_back(&step);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const StepDiagnosis* a, const StepDiagnosis* b) {
    return std::tuple(a->probability.value_or(0), a->score) >
           std::tuple(b->probability.value_or(0), b->score);
  });
  return worst;
}

std::string Headline(const RunDiagnosis& run) {
  switch (run.verdict) {
    case Verdict::kHealthy:
      return fmt::format("{} {} step{} looked at.\n", kNothingFound, run.steps.size(),
                         run.steps.size() == 1 ? "" : "s");
    case Verdict::kUndecided:
      return Undecided(run);
    case Verdict::kAbnormal:
      break;
  }
  return fmt::format("Abnormal: {} of {} step{}.\n", WorstSteps(run).size(), run.steps.size(),
                     run.steps.size() == 1 ? "" : "s");
}

std::string ReportText(const RunDiagnosis& run, std::size_t shown) {
  const auto worst = WorstSteps(run);
  std::string text = Headline(run) + BlamedTable(worst);
  for (std::size_t i = 0; i < std::min(shown, worst.size()); ++i) {
    text += fmt::format("\nstep {} ({}): {}\n", worst[i]->engine_step, ScoreText(run, *worst[i]),
                        worst[i]->explanation);
  }
  if (worst.size() > shown)
    text += fmt::format("\n{} more abnormal steps are in --json.\n", worst.size() - shown);
  text += LateStartersTable(run) + NotLookedAtTable(run);
  for (const std::string& note : run.notes) text += "\nnote: " + note + ".\n";
  return text;
}

}  // namespace teller::diagnose
