#include "src/diagnose/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "src/core/clock.h"
#include "src/core/text_table.h"
#include "src/diagnose/sentence.h"

namespace teller::diagnose {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBlamedShown = 5;

constexpr const char* kMeasureNames[] = {"duration", "gap_before", "host_self", "launch_delay",
                                         "wait",     "transfer",   "step",      "entry_delay"};
static_assert(std::size(kMeasureNames) == localize::kMeasureCount);
const char* MeasureText(localize::Measure measure) {
  return kMeasureNames[static_cast<std::size_t>(measure)];
}

Json RankJson(RankId rank) {
  return rank == kNoRank ? Json(nullptr) : Json(static_cast<int32_t>(rank));
}

Json SuspectJson(const Suspect& suspect) {
  return {{"rank", RankJson(suspect.rank)},
          {"peer", RankJson(suspect.peer)},
          {"operator", suspect.op},
          {"layer", trace::LayerName(suspect.layer)},
          {"measure", MeasureText(suspect.measure)},
          {"observed_ns", suspect.observed_ns},
          {"expected_ns", suspect.expected_ns ? Json(*suspect.expected_ns) : Json(nullptr)},
          {"p_value", suspect.p_value ? Json(*suspect.p_value) : Json(nullptr)}};
}

Json EvidenceJson(const StepDiagnosis& step) {
  Json evidence = Json::array();
  if (!step.abnormal) return evidence;
  if (!step.suspects.empty()) {
    Json time = SuspectJson(step.suspects.front());
    time["type"] = "time";
    time["node"] = static_cast<int32_t>(step.suspects.front().node);
    evidence.push_back(std::move(time));
  }
  for (const PeerWait& wait : step.waits) {
    evidence.push_back({{"type", "wait"},
                        {"rank", RankJson(wait.rank)},
                        {"operator", wait.op},
                        {"for_rank", RankJson(step.suspects.front().rank)},
                        {"observed_ns", wait.waited_ns}});
  }
  for (const EvidenceLine& line : step.logs) {
    evidence.push_back({{"type", "log"},
                        {"rank", RankJson(line.rank)},
                        {"offset_ns", line.offset_ns},
                        {"text", line.text}});
  }
  return evidence;
}

Json StepJson(const StepDiagnosis& step) {
  Json candidates = Json::array();
  for (const Suspect& suspect : step.suspects) candidates.push_back(SuspectJson(suspect));
  Json json = {{"step", step.engine_step},
               {"begin_ns", step.begin_ns},
               {"end_ns", step.end_ns},
               {"score", step.score},
               {"abnormal", step.abnormal},
               {"fault_kind",
                step.abnormal && !step.fault_kind.empty() ? Json(step.fault_kind) : Json(nullptr)},
               {"candidates", std::move(candidates)},
               {"explanation", step.explanation},
               {"evidence", EvidenceJson(step)}};
  if (step.probability) json["probability"] = *step.probability;
  return json;
}

/// Abnormal steps, worst first: by the model's probability where there is one, then by score.
std::vector<const StepDiagnosis*> Worst(const RunDiagnosis& run) {
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

std::string Headline(const RunDiagnosis& run, std::size_t abnormal) {
  switch (run.verdict) {
    case Verdict::kHealthy:
      return fmt::format("{} {} steps looked at.\n", kNothingFound, run.steps.size());
    case Verdict::kUndecided:
      return fmt::format("Undecided: too little to tell from {} steps.\n", run.steps.size());
    case Verdict::kAbnormal:
      break;
  }
  return fmt::format("Abnormal: {} of {} steps.\n", abnormal, run.steps.size());
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

}  // namespace

std::string ReportJson(const RunDiagnosis& run) {
  Json steps = Json::array();
  for (const StepDiagnosis& step : run.steps) steps.push_back(StepJson(step));
  const Json json = {
      {"steps", std::move(steps)}, {"verdict", VerdictName(run.verdict)}, {"notes", run.notes}};
  // Log lines may hold bytes that are not UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ReportText(const RunDiagnosis& run, std::size_t shown) {
  const auto worst = Worst(run);
  std::string text = Headline(run, worst.size()) + BlamedTable(worst);
  for (std::size_t i = 0; i < std::min(shown, worst.size()); ++i) {
    const std::string sure = worst[i]->probability
                                 ? fmt::format(", probability {:.2f}", *worst[i]->probability)
                                 : std::string();
    text += fmt::format("\nstep {} (score {:.1f}{}): {}\n", worst[i]->engine_step, worst[i]->score,
                        sure, worst[i]->explanation);
  }
  if (worst.size() > shown)
    text += fmt::format("\n{} more abnormal steps are in --json.\n", worst.size() - shown);
  for (const std::string& note : run.notes) text += "\nnote: " + note + ".\n";
  return text;
}

}  // namespace teller::diagnose
