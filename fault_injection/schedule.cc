#include "fault_injection/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fault_injection/fault_kind.h"
#include "src/abi/control.h"
#include "src/core/clock.h"
#include "src/core/text_table.h"

namespace teller::fault_injection {
namespace {

constexpr double kMaxDurationS = 86400;
constexpr int64_t kMaxSteps = 1'000'000;

int64_t Seconds(double seconds) { return std::llround(seconds * 1e9); }

std::pair<int64_t, int64_t> ReadStepRange(const config::Node& part, std::string_view key,
                                          std::pair<int64_t, int64_t> fallback) {
  const auto node = part.Find(key);
  if (!node) return fallback;
  const std::vector<int64_t> range = node->AsInts(1, kMaxSteps);
  if (range.size() != 2 || range[0] > range[1]) {
    node->Fail("expected [least, most] steps, the least first");
  }
  return {range[0], range[1]};
}

FaultTarget ReadTarget(const config::Node& part, const KindDescription& kind) {
  FaultTarget target;
  target.symbol = part.Get("symbol").AsString();
  if (target.symbol.empty() || target.symbol.size() >= sizeof(TellerPerturbation::pattern)) {
    part.Get("symbol").Fail(
        fmt::format("1 to {} characters are expected", sizeof(TellerPerturbation::pattern) - 1));
  }
  target.layer = std::string(kind.layers.front());
  if (const auto layer = part.Find("layer")) target.layer = layer->AsChoice(kind.layers);
  target.culprit_symbol = target.symbol;
  if (target.culprit_symbol.ends_with('*')) target.culprit_symbol.pop_back();
  part.Read("culprit", target.culprit_symbol);
  part.Read("calls_per_step", target.calls_per_step, 0.001, 1e6);
  part.Read("call_us", target.call_us, 0.001, 1e9);
  return target;
}

std::vector<FaultTarget> ReadTargets(const config::Node& part, const KindDescription& kind) {
  if (kind.layers.empty()) return {FaultTarget{}};
  std::vector<FaultTarget> targets;
  const config::Node list = part.Get("targets");
  for (const config::Node& item : list.Items()) targets.push_back(ReadTarget(item, kind));
  if (targets.empty()) list.Fail("at least one target is expected");
  return targets;
}

std::vector<RankId> ReadRanks(const config::Node& part, int rank_count) {
  std::vector<RankId> ranks;
  const auto list = part.Find("ranks");
  if (!list) {
    for (int rank = 0; rank < rank_count; ++rank) ranks.push_back(RankId{rank});
    return ranks;
  }
  for (const int64_t rank : list->AsInts()) {
    if (rank < 0 || rank >= rank_count || rank >= 64) {
      list->Fail(fmt::format("rank {} does not exist; the engine has {}", rank, rank_count));
    }
    ranks.push_back(RankId{static_cast<int32_t>(rank)});
  }
  if (ranks.empty()) list->Fail("at least one rank is expected");
  return ranks;
}

std::array<double, 6> ReadEdges(const config::Node& part, const KindDescription& kind) {
  const auto list = part.Find("level_edges_us");
  if (!list) return kind.step_edges_us;
  const std::vector<double> values = list->AsDoubles();
  const bool rising = std::is_sorted(values.begin(), values.end(), std::less_equal<>());
  if (values.size() != 6 || values.front() <= 0 || !rising) {
    list->Fail("six rising numbers above zero are expected: the edges of the five levels");
  }
  std::array<double, 6> edges{};
  std::copy(values.begin(), values.end(), edges.begin());
  return edges;
}

const FaultKind& ReadKindName(const config::Node& part) {
  std::vector<std::string_view> names;
  for (const FaultKind& kind : AllKinds()) names.push_back(kind.description.name);
  return *FindKind(part.Get("kind").AsChoice(names));
}

void ReadMode(const config::Node& part, const KindDescription& kind, ScheduledKind& scheduled) {
  if (kind.modes.empty()) return;
  scheduled.mode = kind.modes.front();
  if (const auto mode = part.Find("mode")) scheduled.mode = mode->AsChoice(kind.modes);
  if (scheduled.mode != kProportional) return;
  for (const FaultTarget& target : scheduled.targets) {
    if (target.call_us > 0) continue;
    part.Fail(
        fmt::format("target '{}' needs call_us: a delay in proportion to a call's own time is "
                    "sized by what the call takes when healthy",
                    target.symbol));
  }
}

void ReadShape(const config::Node& part, const KindDescription& kind, ScheduledKind& scheduled) {
  part.Read("repeat", scheduled.repeat, 1, 1000);
  part.Read("ramp_share", scheduled.ramp_share, 0, 1);
  if (scheduled.ramp_share > 0 && !kind.can_ramp) {
    part.Get("ramp_share").Fail(fmt::format("{} is on or off: it cannot ramp", kind.name));
  }
}

ScheduledKind ReadKind(const config::Node& part, int rank_count) {
  const KindDescription& kind = ReadKindName(part).description;
  if (kind.by_run) {
    part.Get("kind").Fail(
        fmt::format("{} is part of an engine's configuration: it is held for a run; name it under "
                    "campaign.configuration",
                    kind.name));
  }
  ScheduledKind scheduled{.kind = std::string(kind.name),
                          .ranks = ReadRanks(part, rank_count),
                          .targets = ReadTargets(part, kind),
                          .step_edges_us = ReadEdges(part, kind)};
  ReadMode(part, kind, scheduled);
  ReadShape(part, kind, scheduled);
  for (const KindParameter& parameter : kind.parameters) {
    double value = parameter.fallback;
    part.Read(parameter.name, value, parameter.low, parameter.high);
    scheduled.parameters[std::string(parameter.name)] = value;
  }
  return scheduled;
}

}  // namespace

Schedule ReadSchedule(const config::Node& part, int rank_count) {
  Schedule schedule;
  if (const auto version = part.Find("schema_version")) version->AsInt(1, 1);
  double calibration_s = static_cast<double>(schedule.calibration_ns) * 1e-9;
  double duration_s = static_cast<double>(schedule.duration_ns) * 1e-9;
  part.Read("calibration_s", calibration_s, 0, kMaxDurationS);
  part.Read("duration_s", duration_s, 0.001, kMaxDurationS);
  part.Read("step_ms", schedule.step_ms, 0.001, 60000);
  part.Read("placebo_share", schedule.placebo_share, 0, 0.9);
  part.Read("overlap_share", schedule.overlap_share, 0, 1);
  schedule.calibration_ns = Seconds(calibration_s);
  schedule.duration_ns = Seconds(duration_s);
  schedule.stretch_steps = ReadStepRange(part, "stretch_steps", schedule.stretch_steps);
  schedule.gap_steps = ReadStepRange(part, "gap_steps", schedule.gap_steps);
  if (calibration_s >= duration_s) {
    part.Fail(
        fmt::format("calibration_s {} leaves nothing of duration_s {}", calibration_s, duration_s));
  }
  const config::Node kinds = part.Get("faults");
  for (const config::Node& item : kinds.Items()) {
    schedule.kinds.push_back(ReadKind(item, rank_count));
  }
  if (schedule.kinds.empty()) kinds.Fail("at least one fault is expected");
  part.RejectUnknownKeys();
  return schedule;
}

std::string Plan::ToText() const {
  TextTable table({"stretch", "begin", "length", "kind", "level", "rank", "symbol", "magnitude"});
  for (const PlannedFault& fault : faults) {
    std::string magnitude;
    for (const auto& [name, value] : fault.magnitude) {
      magnitude += fmt::format("{}{} {:.6g}", magnitude.empty() ? "" : ", ", name, value);
    }
    table.AddRow({std::to_string(fault.stretch), FormatDuration(fault.begin_ns),
                  FormatDuration(fault.length_ns), fault.kind + (fault.placebo ? " (placebo)" : ""),
                  std::to_string(fault.level),
                  std::to_string(static_cast<int32_t>(fault.target.rank)),
                  fault.target.symbol.empty() ? "-" : fault.target.symbol, magnitude});
  }
  return table.ToText();
}

std::string Plan::ToJson() const {
  nlohmann::json list = nlohmann::json::array();
  for (const PlannedFault& fault : faults) {
    list.push_back({{"plan_id", fault.plan_id},
                    {"stretch", fault.stretch},
                    {"kind", fault.kind},
                    {"placebo", fault.placebo},
                    {"level", fault.level},
                    {"magnitude", fault.magnitude},
                    {"rank", static_cast<int32_t>(fault.target.rank)},
                    {"layer", fault.target.layer},
                    {"symbol", fault.target.symbol},
                    {"begin_ns", fault.begin_ns},
                    {"length_ns", fault.length_ns}});
    if (fault.ramp_ns > 0) list.back()["ramp_ns"] = fault.ramp_ns;
  }
  return nlohmann::json{{"seed", seed},
                        {"run", run},
                        {"calibration_ns", calibration_ns},
                        {"duration_ns", duration_ns},
                        {"faults", list}}
      .dump(2);
}

}  // namespace teller::fault_injection
