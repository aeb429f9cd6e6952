#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.h"
#include "src/core/ids.h"

namespace teller::fault_injection {

/// Sizes of a fault, by NAME_UNIT.
using Magnitudes = std::map<std::string, double>;

/// Where a fault acts.
struct FaultTarget {
  RankId rank = kNoRank;
  std::string layer;   ///< 'comm', 'backend', 'device', ...; empty where the kind has none
  std::string symbol;  ///< exact name, or a prefix ended by '*'; empty where the kind has none
  std::string culprit_symbol;  ///< as it stands in labels: by default `symbol` without the '*'
  double calls_per_step = 1;   ///< the recorded time per step is spread over so many calls
  double call_us = 0;  ///< a call's own healthy time; 0: not stated (only 'proportional' needs it)
};

/// One use of one kind of fault, decided before the run.
struct PlannedFault {
  uint32_t plan_id = 0;  ///< unique in the run
  int32_t stretch = 0;   ///< counts from 0 in the run; faults that overlap on purpose share one
  std::string kind;
  bool placebo = false;  ///< fully planned, effect zero
  double step_us = 0;    ///< recorded time per affected step that the magnitude is meant to make
  int32_t level = 0;     ///< 1 barely visible .. 5 severe
  Magnitudes magnitude;  ///< log-uniform within the level's bin
  FaultTarget target;
  int64_t begin_ns = 0;  ///< from the begin of the run
  int64_t length_ns = 0;
  int64_t ramp_ns = 0;  ///< the effect grows from nothing to its magnitude over so long
  uint32_t seed = 0;    ///< for what the kind draws itself
};

/// What happens in one run.
struct Plan {
  uint64_t seed = 0;
  int32_t run = 0;
  int64_t calibration_ns = 0;        ///< fault-free window at the begin
  int64_t duration_ns = 0;           ///< calibration included
  std::vector<PlannedFault> faults;  ///< by begin

  std::string ToText() const;  ///< a table for people
  std::string ToJson() const;
};

/// One kind with its targets and ranges in a schedule.
struct ScheduledKind {
  std::string kind;
  std::vector<RankId> ranks;         ///< crossed with levels and targets
  std::vector<FaultTarget> targets;  ///< rank unset; one empty target where the kind has none
  std::array<double, 6>
      step_edges_us{};    ///< edges of the five levels: recorded microseconds per affected step
  Magnitudes parameters;  ///< further settings of the kind
  std::string mode;       ///< one of the kind's; empty: it has none
  double ramp_share = 0;  ///< of a stretch, over which the effect grows from nothing
  int repeat = 1;         ///< so many stretches of one cell in a row
};

/// A seeded schedule (configs/fault/*.yaml, docs/schema/fault_schedule.md).
struct Schedule {
  int64_t calibration_ns = 4'000'000'000;
  int64_t duration_ns = 20'000'000'000;
  std::pair<int64_t, int64_t> stretch_steps{60, 100};
  std::pair<int64_t, int64_t> gap_steps{30, 70};
  double step_ms = 7;  ///< expected healthy step: turns steps into time
  double placebo_share = 0.1;
  double overlap_share = 0;  ///< of stretches that have a second fault of another kind
  std::vector<ScheduledKind> kinds;
};

/// Reads a schedule for an engine of `rank_count` ranks. Throws ConfigError with file, line and
/// column: unknown kind or key, rank that does not exist, length below zero, placebo share outside
/// [0, 1), levels out of order.
Schedule ReadSchedule(const config::Node& part, int rank_count);

/// True where two faults cannot be on at the same time: same exclusive resource, and same rank
/// unless it is the nodes' links.
bool Conflict(const PlannedFault& a, const PlannedFault& b);

/// Plans of runs 0 .. runs-1. The same schedule and seed give the same plans; run r does not depend
/// on how many follow. Within a run kinds alternate in shuffled blocks; per kind levels come in
/// shuffled blocks of five, and ranks and targets are crossed with levels over consecutive blocks,
/// runs after each other; one of every 1/placebo_share stretches is a placebo. Of two faults that
/// overlap the second is dealt from the same blocks.
std::vector<Plan> MakePlans(const Schedule& schedule, uint64_t seed, int runs);

}  // namespace teller::fault_injection
