#include "src/diagnose/late_starts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace teller::diagnose {
namespace {

using localize::Measure;
using localize::Reading;
using reconstruct::StepForest;
using reconstruct::StepNode;

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Finder {
 public:
  Finder(const StepForest& step, const localize::StepReadings& readings,
         const LateStartOptions& options)
      : step_(step), readings_(readings), options_(options) {
    for (std::size_t i = 0; i < step.ranks.size(); ++i) position_[step.ranks[i]] = i;
  }

  std::vector<LateStart> Run() {
    std::vector<LateStart> found;
    for (const auto& [last, members] : Members()) {
      LateStart start = Judge(last, members);
      if (start.late_ns >= options_.least_ns) start.cause = CauseOf(start);
      found.push_back(start);
    }
    std::stable_sort(found.begin(), found.end(), [&](const LateStart& a, const LateStart& b) {
      return BaseEntry(a.collective) < BaseEntry(b.collective);
    });
    return found;
  }

 private:
  /// The other members of each collective, by its last starter.
  std::map<NodeId, std::vector<NodeId>> Members() const {
    std::map<NodeId, std::vector<NodeId>> members;
    for (const auto& edge : step_.edges) {
      if (edge.type == reconstruct::EdgeType::kCollective) members[edge.from].push_back(edge.to);
    }
    return members;
  }

  const StepNode& At(NodeId node) const { return step_.nodes[Index(node)]; }
  RankId RankOf(NodeId node) const { return step_.tracks[At(node).track].rank; }
  int64_t RankBegin(RankId rank) const { return step_.rank_begin_ns[position_.at(rank)]; }
  /// When its rank joined a collective.
  int64_t BaseEntry(NodeId node) const {
    return RankBegin(RankOf(node)) + At(node).begin_ns + At(node).entry_delay_ns;
  }
  int64_t BaseEnd(NodeId node) const {
    return RankBegin(RankOf(node)) + At(node).begin_ns + At(node).duration_ns;
  }

  LateStart Judge(NodeId last, const std::vector<NodeId>& others) const {
    LateStart start{.collective = last, .rank = RankOf(last)};
    std::vector<int64_t> begins;
    int64_t end_ns = BaseEnd(last);
    for (const NodeId other : others) {
      begins.push_back(BaseEntry(other));
      end_ns = std::max(end_ns, BaseEnd(other));
    }
    const int64_t usual_ns = Median(std::move(begins));
    start.transfer_ns = end_ns - BaseEntry(last);
    if (options_.steps_begin_together || RankBegin(start.rank) <= usual_ns)
      start.late_ns = BaseEntry(last) - usual_ns;
    return start;
  }

  /// When the rank's latest collective before this one ended; the step's begin where there is none.
  int64_t PreviousEnd(NodeId collective) const {
    int64_t end_ns = INT64_MIN;
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      const NodeId node{static_cast<int32_t>(i)};
      if (readings_.last_starter[i] == kNoNode || RankOf(node) != RankOf(collective)) continue;
      const int64_t node_end_ns = At(node).begin_ns + At(node).duration_ns;
      if (node_end_ns <= At(collective).begin_ns) end_ns = std::max(end_ns, node_end_ns);
    }
    return end_ns;
  }

  std::optional<LateStart::Cause> CauseOf(const LateStart& start) {
    if (peers_.empty()) CollectPeers();
    const int64_t from_ns = PreviousEnd(start.collective),
                  to_ns = At(start.collective).begin_ns + At(start.collective).entry_delay_ns;
    int64_t most_ns = start.late_ns / 4;
    std::optional<LateStart::Cause> cause;
    if (from_ns == INT64_MIN) cause = LateBegin(start.rank, most_ns);
    for (const Reading& reading : readings_.readings) {
      const StepNode& node = At(reading.node);
      if (IsNoCause(reading.measure) || RankOf(reading.node) != start.rank) continue;
      // A gap lies before its node.
      const int64_t begin_ns = node.begin_ns - Before(reading);
      if (node.begin_ns + node.duration_ns <= from_ns || begin_ns >= to_ns) continue;
      const int64_t expected_ns = PeersOf(reading, start.rank);
      const int64_t inside_ns =
          std::min(node.begin_ns + node.duration_ns, to_ns) - std::max(begin_ns, from_ns);
      const int64_t excess_ns = std::min(reading.observed_ns - expected_ns, inside_ns);
      if (excess_ns <= most_ns) continue;
      most_ns = excess_ns;
      cause = {reading.node, reading.measure, reading.observed_ns, expected_ns};
    }
    return cause;
  }

  /// The step itself, where the rank began it later than the others by more than `most_ns`, which
  /// then becomes that time.
  std::optional<LateStart::Cause> LateBegin(RankId rank, int64_t& most_ns) const {
    std::vector<int64_t> begins;
    for (std::size_t i = 0; i < step_.ranks.size(); ++i) {
      if (step_.ranks[i] != rank) begins.push_back(step_.rank_begin_ns[i]);
    }
    const int64_t late_ns = RankBegin(rank) - Median(std::move(begins));
    const NodeId root = RootOf(rank);
    if (!options_.steps_begin_together || late_ns <= most_ns || root == kNoNode)
      return std::nullopt;
    most_ns = late_ns;
    return LateStart::Cause{root, Measure::kGapBefore, late_ns, 0};
  }
  NodeId RootOf(RankId rank) const {
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      const auto& track = step_.tracks[step_.nodes[i].track];
      if (track.rank == rank && track.track == 0 && !track.device)
        return NodeId{static_cast<int32_t>(i)};
    }
    return kNoNode;
  }

  static bool IsNoCause(Measure measure) {
    return measure == Measure::kWait || measure == Measure::kTransfer || measure == Measure::kStep;
  }
  static int64_t Before(const Reading& reading) {
    const bool lies_before =
        reading.measure == Measure::kGapBefore || reading.measure == Measure::kLaunchDelay;
    return lies_before ? reading.observed_ns : 0;
  }

  using Place = std::tuple<SymbolId, trace::Layer, Measure, int32_t>;
  Place PlaceOf(const Reading& reading) const {
    return {At(reading.node).symbol, At(reading.node).layer, reading.measure, reading.occurrence};
  }
  void CollectPeers() {
    for (const Reading& reading : readings_.readings)
      peers_[PlaceOf(reading)].emplace_back(RankOf(reading.node), reading.observed_ns);
  }
  /// Median of the other ranks at the same place; what no other rank does is all excess.
  int64_t PeersOf(const Reading& reading, RankId rank) const {
    std::vector<int64_t> times;
    for (const auto& [peer, time_ns] : peers_.at(PlaceOf(reading))) {
      if (peer != rank) times.push_back(time_ns);
    }
    return times.empty() ? 0 : Median(std::move(times));
  }

  const StepForest& step_;
  const localize::StepReadings& readings_;
  const LateStartOptions& options_;
  std::map<RankId, std::size_t> position_;
  std::map<Place, std::vector<std::pair<RankId, int64_t>>> peers_;
};

}  // namespace

std::vector<LateStart> FindLateStarts(const StepForest& step,
                                      const localize::StepReadings& readings,
                                      const LateStartOptions& options) {
  return Finder(step, readings, options).Run();
}

}  // namespace teller::diagnose
