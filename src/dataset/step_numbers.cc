#include "src/dataset/step_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "src/dataset/step_scale.h"

namespace teller::dataset {
namespace {

using reconstruct::EdgeType;
using reconstruct::Phase;
using reconstruct::StepForest;
using reconstruct::StepNode;
using trace::Kind;

// What is measured of a rank in a step; names as in docs/numbers.md.
enum Quantity {
  kDuration,
  kHostSelf,
  kDeviceBusy,
  kSync,
  kWait,
  kTransfer,
  kLaunchDelay,
  kGapBefore,
  kEntryDelay,
  kQuantities
};
constexpr std::array<const char*, kQuantities> kQuantityNames = {
    "duration", "host_self",    "device_busy", "sync",       "wait",
    "transfer", "launch_delay", "gap_before",  "entry_delay"};
constexpr std::size_t kRankPositions = 4;

using RankQuantities = std::array<int64_t, kQuantities>;

// Ranks of a step by position, with the nodes' times on the base clock.
class StepMeasure {
 public:
  explicit StepMeasure(const StepForest& step) : step_(step), ranks_(step.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r][kDuration] = step.rank_end_ns[r] - step.rank_begin_ns[r];
    for (std::size_t i = 0; i < step.nodes.size(); ++i) AddNode(step.nodes[i]);
    for (const reconstruct::StepEdge& edge : step.edges) AddEdge(edge);
  }
  const std::vector<RankQuantities>& ranks() const { return ranks_; }

 private:
  std::size_t RankOf(const StepNode& node) const {
    return static_cast<std::size_t>(std::ranges::find(step_.ranks, step_.tracks[node.track].rank) -
                                    step_.ranks.begin());
  }
  int64_t BaseEntry(const StepNode& node) const {
    return step_.rank_begin_ns[RankOf(node)] + node.begin_ns + node.entry_delay_ns;
  }

  void AddNode(const StepNode& node) {
    const std::size_t rank = RankOf(node);
    if (rank >= ranks_.size()) return;
    const bool synthetic = node.parent == kNoNode && step_.tracks[node.track].track != 0;
    RankQuantities& of = ranks_[rank];
    of[kDeviceBusy] += node.device_busy_ns;
    of[kEntryDelay] += node.entry_delay_ns;
    if (node.kind == Kind::kSyncCall) of[kSync] += node.duration_ns;
    if (!synthetic && node.kind != Kind::kSyncCall) of[kHostSelf] += node.host_self_ns;
    if (node.parent == kNoNode && step_.tracks[node.track].track == 0) {
      of[kGapBefore] = std::max<int64_t>(node.gap_before_ns, 0);
    }
  }

  void AddEdge(const reconstruct::StepEdge& edge) {
    const StepNode &from = step_.nodes[Index(edge.from)], &to = step_.nodes[Index(edge.to)];
    const std::size_t rank = RankOf(to);
    if (rank >= ranks_.size() || RankOf(from) >= ranks_.size()) return;
    if (edge.type == EdgeType::kLaunch) {
      ranks_[rank][kLaunchDelay] +=
          std::max<int64_t>(to.begin_ns - from.begin_ns - from.duration_ns, 0);
    } else if (edge.type == EdgeType::kCollective) {
      const int64_t wait_ns = std::max<int64_t>(BaseEntry(from) - BaseEntry(to), 0);
      ranks_[rank][kWait] += wait_ns;
      ranks_[rank][kTransfer] += std::max<int64_t>(to.duration_ns - to.entry_delay_ns - wait_ns, 0);
      // The last starter does not wait; it has an edge to every other rank and counts once.
      if (last_starters_.insert(edge.from).second)
        ranks_[RankOf(from)][kTransfer] += from.duration_ns - from.entry_delay_ns;
    }
  }

  std::set<NodeId> last_starters_;
  const StepForest& step_;
  std::vector<RankQuantities> ranks_;
};

std::vector<std::string> Names() {
  std::vector<std::string> names{"step_duration", "is_prefill", "is_decode",
                                 "is_mixed",      "log_batch",  "log_context_tokens"};
  for (const char* quantity : kQuantityNames) {
    for (const char* over : {"_max", "_min"}) names.push_back(std::string(quantity) + over);
  }
  for (std::size_t r = 0; r < kRankPositions; ++r) {
    for (const char* quantity : kQuantityNames)
      names.push_back("rank" + std::to_string(r) + "_" + quantity);
  }
  return names;
}

// Scales of one run: of whole steps, and by (rank position, quantity).
class RunScales {
 public:
  void Add(const StepForest& step, const StepMeasure& measure) {
    whole_.Add(step, step.end_ns - step.begin_ns);
    for (std::size_t r = 0; r < measure.ranks().size(); ++r) {
      for (int q = 0; q < kQuantities; ++q)
        by_rank_[{r, q}].Add(step, measure.ranks()[r][static_cast<std::size_t>(q)]);
    }
  }
  void Fit() {
    whole_.Fit();
    for (auto& [key, scale] : by_rank_) scale.Fit();
  }

  std::vector<float> Row(const StepForest& step, const StepMeasure& measure) const {
    std::vector<float> row{static_cast<float>(whole_.LogRatio(step, step.end_ns - step.begin_ns)),
                           step.phase == Phase::kPrefill ? 1.0f : 0.0f,
                           step.phase == Phase::kDecode ? 1.0f : 0.0f,
                           step.phase == Phase::kMixed ? 1.0f : 0.0f,
                           static_cast<float>(std::log1p(std::max(step.batch_size, 0))),
                           static_cast<float>(std::log1p(std::max(step.context_tokens, 0)))};
    std::vector<std::array<float, kQuantities>> ratios;
    for (std::size_t r = 0; r < measure.ranks().size(); ++r)
      ratios.push_back(Ratios(step, measure.ranks()[r], r));
    for (std::size_t q = 0; q < kQuantities; ++q) {
      const auto [low, high] =
          std::ranges::minmax_element(ratios, {}, [q](const auto& of) { return of[q]; });
      row.push_back(ratios.empty() ? 0 : (*high)[q]);
      row.push_back(ratios.empty() ? 0 : (*low)[q]);
    }
    ratios.resize(kRankPositions, {});
    for (const auto& of : ratios) row.insert(row.end(), of.begin(), of.end());
    return row;
  }

 private:
  // A quantity that is mostly zero, such as waiting, must not blow up: 2 % of the step's median
  // counts for little.
  int64_t FloorNs(const StepForest& step) const {
    return std::max<int64_t>(StepScale::kFloorNs, whole_.Of(step).median_ns / 50);
  }

  std::array<float, kQuantities> Ratios(const StepForest& step, const RankQuantities& of,
                                        std::size_t rank) const {
    std::array<float, kQuantities> ratios{};
    for (int q = 0; q < kQuantities; ++q) {
      const auto scale = by_rank_.find({rank, q});
      if (scale == by_rank_.end()) continue;
      const auto at = static_cast<std::size_t>(q);
      ratios[at] = static_cast<float>(scale->second.LogRatio(step, of[at], FloorNs(step)));
    }
    return ratios;
  }

  StepScale whole_;
  std::map<std::pair<std::size_t, int>, StepScale> by_rank_;
};

}  // namespace

StepNumbers ComputeStepNumbers(std::span<const StepForest> steps,
                               const std::vector<bool>& calibration) {
  const bool calibrated = std::ranges::find(calibration, true) != calibration.end();
  RunScales scales;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!calibrated || calibration[i]) scales.Add(steps[i], StepMeasure(steps[i]));
  }
  scales.Fit();
  StepNumbers numbers{.names = Names()};
  for (const StepForest& step : steps) numbers.rows.push_back(scales.Row(step, StepMeasure(step)));
  return numbers;
}

}  // namespace teller::dataset
