#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/labels.h"

namespace teller::dataset {

/// truth.jsonl in memory (docs/schema/truth.md). Every time is on CLOCK_MONOTONIC of the node named
/// beside it.
struct TruthNode {
  std::string name;
  RankId rank = kNoRank;
  int64_t clock_offset_ns = 0;
};
struct TruthWindow {
  std::string node;
  int64_t begin_ns = 0, end_ns = 0;
};
struct TruthPlan {
  int32_t plan_id = -1;
  int32_t stretch = -1;
  std::string kind, family;
  View view = View::kNone;
  bool placebo = false;
  int32_t level = 0;
  RankId culprit_rank = kNoRank;
  std::string culprit_layer, culprit_symbol;  ///< as written, empty: the kind has none
  double step_us = 0;  ///< planned recorded time per affected step; 0: not stated (before 1.1)
  std::map<std::string, double> magnitude;
  bool by_stretch = false;  ///< it is measured for the whole stretch only, never by the step
  bool acted = false;       ///< as the injector measured it, for such kinds
};
/// One end of a stretch.
struct TruthEdge {
  int32_t plan_id = -1;
  bool begin = false;
  std::string node;
  int64_t time_ns = 0;
};
enum class ActionPlace : uint8_t { kInside = 0, kBefore = 1, kInterval = 2 };
struct TruthAction {
  int32_t plan_id = -1;
  std::string node;
  RankId rank = kNoRank;
  int64_t begin_ns = 0, end_ns = 0;
  ActionPlace place = ActionPlace::kInterval;
};
struct Truth {
  std::string run_id;
  std::vector<TruthNode> nodes;
  std::vector<TruthWindow> calibration;
  std::vector<TruthPlan> plans;
  std::vector<TruthEdge> edges;
  std::vector<TruthAction> actions;
  int64_t lost = 0;           ///< pieces of evidence that the injector could not record
  int64_t unknown_lines = 0;  ///< of types this reader does not know
  bool complete = false;      ///< the footer was there and counted the same actions
};

/// Reads truth.jsonl. A last line that was cut short makes it incomplete. Throws DataError with the
/// line's number where a line is no JSON object, a key is missing or of another type, the schema is
/// another, or an action or edge names a plan that was not planned.
Truth ReadTruth(const std::filesystem::path& path);

/// The same from text; `name` stands in messages.
Truth ParseTruth(std::string_view text, const std::string& name);

}  // namespace teller::dataset
