#include <algorithm>
#include <map>
#include <set>

#include "src/experiment/evaluation.h"
#include "src/experiment/headline_metrics.h"
#include "src/experiment/metrics.h"

namespace teller::experiment {
namespace {
using dataset::LabelStatus;
using dataset::View;
using Json = nlohmann::ordered_json;

std::string PartOf(const std::string& run_id, const Split& split) {
  for (const auto& [name, part] : {std::pair("train", &split.train),
                                   {"validation", &split.validation},
                                   {"test", &split.test}}) {
    if (std::find(part->begin(), part->end(), run_id) != part->end()) return name;
  }
  return "unused";
}

/// Counts of one part of the data: the columns of E1.
struct PartCounts {
  std::map<std::string, double> columns;
  int64_t scored = 0, nodes = 0, slice_nodes = 0, steps = 0;

  void Add(const RunSummary& run) {
    std::set<int32_t> stretches, placebos, ineffective;
    for (const dataset::StepLabel& label : run.truth.labels) {
      if (label.stretch >= 0) stretches.insert(label.stretch);
      if ((label.reasons & dataset::kReasonPlacebo) != 0) placebos.insert(label.stretch);
      if ((label.reasons & dataset::kReasonIneffective) != 0) ineffective.insert(label.stretch);
      columns[StatusColumn(label)] += 1;
    }
    columns["runs"] += 1;
    columns["stretches"] += static_cast<double>(stretches.size());
    columns["placebos"] += static_cast<double>(placebos.size());
    columns["ineffective"] += static_cast<double>(ineffective.size());
    columns["steps"] += static_cast<double>(run.truth.labels.size());
    steps += static_cast<int64_t>(run.truth.labels.size());
    scored += run.scored_steps;
    nodes += run.forest_nodes;
    slice_nodes += run.slice_nodes;
  }

  static std::string StatusColumn(const dataset::StepLabel& label) {
    if ((label.reasons & dataset::kReasonCalibration) != 0) return "calibration";
    if (label.status == LabelStatus::kPositive) return "positive";
    return label.status == LabelStatus::kGrey ? "grey" : "negative";
  }
};

/// Positive steps of one kind and level: the columns of E1_kinds.
struct KindCounts {
  View view = View::kNone;
  std::set<std::pair<std::string, int32_t>> stretches;
  std::map<std::string, double> steps_by_part;
  std::vector<double> recorded_us;
};

std::map<std::pair<std::string, int32_t>, KindCounts> CountKinds(std::span<const RunSummary> runs,
                                                                 const Split& split) {
  std::map<std::pair<std::string, int32_t>, KindCounts> kinds;
  for (const RunSummary& run : runs) {
    const std::string part = PartOf(run.truth.run_id, split);
    for (const dataset::StepLabel& label : run.truth.labels) {
      if (label.status != LabelStatus::kPositive || !IsScored(label)) continue;
      KindCounts& counts = kinds[{label.kind, label.level}];
      counts.view = label.view;
      counts.stretches.emplace(run.truth.run_id, label.stretch);
      counts.steps_by_part[part] += 1;
      if (label.recorded_ns.empty()) continue;
      const int64_t most_ns = *std::max_element(label.recorded_ns.begin(), label.recorded_ns.end());
      counts.recorded_us.push_back(static_cast<double>(most_ns) / 1e3);
    }
  }
  return kinds;
}

}  // namespace

std::vector<Cell> DataStatistics(std::span<const RunSummary> runs, const Split& split) {
  std::map<std::string, PartCounts> parts;
  for (const RunSummary& run : runs) {
    parts[PartOf(run.truth.run_id, split)].Add(run);
    parts["all"].Add(run);
  }
  std::vector<Cell> cells;
  for (const char* part : {"train", "validation", "test", "all"}) {
    const PartCounts& counts = parts[part];
    for (const auto& [column, value] : counts.columns) {
      cells.push_back(MakeCell("E1", Row({{"split", part}}), column, value, counts.steps));
    }
    const auto per_step = [&](int64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(counts.scored);
    };
    cells.push_back(MakeCell("E1", Row({{"split", part}}), "nodes_per_step", per_step(counts.nodes),
                             counts.scored));
    cells.push_back(MakeCell("E1", Row({{"split", part}}), "slice_nodes_per_step",
                             per_step(counts.slice_nodes), counts.scored));
  }
  for (const auto& [key, counts] : CountKinds(runs, split)) {
    const Json row =
        Row({{"kind", key.first}, {"view", ViewName(counts.view)}, {"levels", key.second}});
    const auto n = static_cast<int64_t>(counts.recorded_us.size());
    cells.push_back(
        MakeCell("E1_kinds", row, "stretches", static_cast<double>(counts.stretches.size()), n));
    for (const char* part : {"train", "validation", "test"}) {
      const auto found = counts.steps_by_part.find(part);
      cells.push_back(MakeCell("E1_kinds", row, part,
                               found == counts.steps_by_part.end() ? 0 : found->second, n));
    }
    cells.push_back(MakeCell("E1_kinds", row, "recorded_us", Median(counts.recorded_us), n));
  }
  return cells;
}

}  // namespace teller::experiment
