#include "src/diagnose/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/diagnose/report.h"

namespace teller::diagnose {
namespace {

using Json = nlohmann::json;

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
          {"p_value", suspect.p_value ? Json(*suspect.p_value) : Json(nullptr)},
          {"strength", suspect.strength ? Json(*suspect.strength) : Json(nullptr)},
          {"late_start", suspect.late_start}};
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
                        {"text", line.text},
                        {"lines_like_it", line.of_its_form}});
  }
  return evidence;
}

}  // namespace

nlohmann::json StepJson(const StepDiagnosis& step) {
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

nlohmann::json LateStartersJson(const RunDiagnosis& run) {
  Json ranks = Json::array();
  for (const LateStarter& starter : run.late_starters) {
    ranks.push_back({{"rank", RankJson(starter.rank)},
                     {"collectives", starter.collectives},
                     {"of", starter.of},
                     {"late_ns", starter.late_ns},
                     {"longest_ns", starter.longest_ns},
                     {"longest_step", starter.longest_step},
                     {"collective", starter.collective},
                     {"cause", starter.cause.empty() ? Json(nullptr) : Json(starter.cause)}});
  }
  return ranks;
}

nlohmann::json NotLookedAtJson(const RunDiagnosis& run) {
  Json left = Json::array();
  for (const NotLookedAt& item : run.not_looked_at)
    left.push_back({{"counter", item.counter}, {"count", item.count}, {"why", item.why}});
  return left;
}

std::string ReportJson(const RunDiagnosis& run) {
  Json steps = Json::array();
  for (const StepDiagnosis& step : run.steps) steps.push_back(StepJson(step));
  const Json json = {{"steps", std::move(steps)},
                     {"verdict", VerdictName(run.verdict)},
                     {"basis", BasisName(run.basis)},
                     {"late_starters", LateStartersJson(run)},
                     {"notes", run.notes},
                     {"not_looked_at", NotLookedAtJson(run)}};
  // Log lines may hold bytes that are not UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace teller::diagnose
