#include "src/localize/readings.h"

#include <algorithm>
#include <utility>

namespace teller::localize {
namespace {

using reconstruct::EdgeType;
using reconstruct::StepForest;
using reconstruct::StepNode;
using trace::Kind;
using trace::Layer;

int64_t EndOf(const StepNode& node) { return node.begin_ns + node.duration_ns; }

bool IsComm(const StepNode& node) {
  return node.kind == Kind::kCollective || node.kind == Kind::kPointToPoint;
}

/// Merged intervals and the total length covered up to any time.
class Coverage {
 public:
  void Add(int64_t begin, int64_t end) {
    if (end > begin) raw_.emplace_back(begin, end);
  }
  void Seal() {
    std::sort(raw_.begin(), raw_.end());
    for (const auto& [begin, end] : raw_) {
      if (!merged_.empty() && begin <= merged_.back().second) {
        merged_.back().second = std::max(merged_.back().second, end);
      } else {
        merged_.emplace_back(begin, end);
      }
    }
    int64_t total = 0;
    for (const auto& [begin, end] : merged_) {
      before_.push_back(total);
      total += end - begin;
    }
  }
  int64_t UpTo(int64_t time) const {
    const auto after = std::upper_bound(merged_.begin(), merged_.end(), std::pair{time, INT64_MAX});
    if (after == merged_.begin()) return 0;
    const auto i = static_cast<std::size_t>(after - merged_.begin()) - 1;
    return before_[i] + std::min(time, merged_[i].second) - merged_[i].first;
  }
  int64_t Between(int64_t begin, int64_t end) const {
    return merged_.empty() ? 0 : UpTo(end) - UpTo(begin);
  }
  /// The last covered moment at or before `time`, or `otherwise`.
  int64_t LastBefore(int64_t time, int64_t otherwise) const {
    const auto after = std::upper_bound(merged_.begin(), merged_.end(), std::pair{time, INT64_MAX});
    if (after == merged_.begin()) return otherwise;
    return std::min(time, std::prev(after)->second);
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> raw_, merged_;
  std::vector<int64_t> before_;
};

class StepReader {
 public:
  explicit StepReader(const StepForest& step) : step_(step) {
    FindLastStarters();
    Cover();
    SumChildren();
    for (const auto& edge : step.edges) {
      if (edge.type == EdgeType::kLaunch) launch_[Index(edge.to)] = edge.from;
    }
  }

  StepReadings Read() {
    std::vector<int32_t> seen(SymbolCount(), 0);  // nodes so far of the track at hand, by symbol
    std::size_t track_begin = 0;
    int64_t stream_end = INT64_MIN;
    out_.readings.reserve(step_.nodes.size() * 2);
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      const StepNode& node = step_.nodes[i];
      if (i > 0 && step_.nodes[i - 1].track != node.track) {
        for (; track_begin < i; ++track_begin) seen[Index(step_.nodes[track_begin].symbol)] = 0;
        stream_end = INT64_MIN;
      }
      occurrence_ = seen[Index(node.symbol)]++;
      if (IsSynthetic(node)) continue;
      if (step_.tracks[node.track].device) {
        ReadDevice(i, stream_end);
        stream_end = std::max(stream_end, EndOf(node));
      } else {
        ReadHost(i);
      }
    }
    return std::move(out_);
  }

 private:
  std::size_t SymbolCount() const {
    std::size_t count = 0;
    for (const StepNode& node : step_.nodes) count = std::max(count, Index(node.symbol) + 1);
    return count;
  }

  void FindLastStarters() {
    out_.last_starter.assign(step_.nodes.size(), kNoNode);
    for (const auto& edge : step_.edges) {
      if (edge.type != EdgeType::kCollective) continue;
      out_.last_starter[Index(edge.from)] = edge.from;
      out_.last_starter[Index(edge.to)] = edge.from;
    }
  }

  bool IsSynthetic(const StepNode& node) const {
    const auto& track = step_.tracks[node.track];
    return node.parent == kNoNode && (track.device || track.track != 0);
  }

  std::size_t RankPosition(uint16_t track) const {
    const auto found = std::find(step_.ranks.begin(), step_.ranks.end(), step_.tracks[track].rank);
    return static_cast<std::size_t>(found - step_.ranks.begin());
  }

  /// When each rank's devices were busy, and when a collective ran on a host thread other than each
  /// track's own.
  void Cover() {
    busy_.resize(step_.ranks.size() + 1);
    blocked_.resize(step_.tracks.size());
    for (std::size_t t = 0; t < step_.tracks.size(); ++t) {
      rank_of_.push_back(RankPosition(static_cast<uint16_t>(t)));
    }
    for (const StepNode& node : step_.nodes) {
      if (IsSynthetic(node)) continue;
      if (step_.tracks[node.track].device) {
        busy_[rank_of_[node.track]].Add(node.begin_ns, EndOf(node));
      } else if (IsComm(node)) {
        for (std::size_t t = 0; t < step_.tracks.size(); ++t) {
          if (t != node.track && !step_.tracks[t].device && rank_of_[t] == rank_of_[node.track]) {
            blocked_[t].Add(node.begin_ns, EndOf(node));
          }
        }
      }
    }
    for (Coverage& coverage : blocked_) coverage.Seal();
    for (Coverage& coverage : busy_) coverage.Seal();
  }

  void SumChildren() {
    const std::size_t count = step_.nodes.size();
    children_ns_.assign(count, 0);
    children_blocked_.assign(count, 0);
    gaps_ns_.assign(count, 0);
    last_child_end_.assign(count, INT64_MIN);
    launch_.assign(count, kNoNode);
    gap_.assign(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const StepNode& node = step_.nodes[i];
      const Coverage& blocked = blocked_[node.track];
      gap_[i] = node.gap_before_ns;
      if (node.gap_before_ns > 0) {
        gap_[i] -= blocked.Between(node.begin_ns - node.gap_before_ns, node.begin_ns);
      }
      if (node.parent == kNoNode) continue;
      const std::size_t parent = Index(node.parent);
      children_ns_[parent] += node.duration_ns;
      children_blocked_[parent] += blocked.Between(node.begin_ns, EndOf(node));
      gaps_ns_[parent] += std::max<int64_t>(0, gap_[i]);
      last_child_end_[parent] = std::max(last_child_end_[parent], EndOf(node));
    }
  }

  void Put(std::size_t node, Measure measure, int64_t observed_ns) {
    out_.readings.push_back({NodeId{static_cast<int32_t>(node)}, measure, occurrence_,
                             std::max<int64_t>(0, observed_ns)});
  }

  /// Begins count from the own rank's begin; this is what to add to compare ranks.
  int64_t RankBegin(const StepNode& node) const {
    const std::size_t rank = rank_of_[node.track];
    return rank < step_.rank_begin_ns.size() ? step_.rank_begin_ns[rank] : step_.begin_ns;
  }

  void ReadCollective(std::size_t i) {
    const StepNode& node = step_.nodes[i];
    const StepNode& last = step_.nodes[Index(out_.last_starter[i])];
    const int64_t entry = node.begin_ns + node.entry_delay_ns;
    const int64_t last_entry =
        last.begin_ns + last.entry_delay_ns + RankBegin(last) - RankBegin(node);
    const int64_t all_there = std::clamp(last_entry, entry, EndOf(node));
    if (node.entry_delay_ns > 0) Put(i, Measure::kEntryDelay, node.entry_delay_ns);
    Put(i, Measure::kWait, all_there - entry);
    Put(i, Measure::kTransfer, EndOf(node) - all_there);
  }

  void ReadDevice(std::size_t i, int64_t stream_end) {
    const StepNode& node = step_.nodes[i];
    if (out_.last_starter[i] != kNoNode) {
      ReadCollective(i);
    } else {
      Put(i, Measure::kDuration, node.duration_ns);
    }
    if (launch_[i] == kNoNode) return;
    const int64_t launched = EndOf(step_.nodes[Index(launch_[i])]);
    Put(i, Measure::kLaunchDelay, node.begin_ns - std::max(launched, stream_end));
  }

  void ReadHost(std::size_t i) {
    const StepNode& node = step_.nodes[i];
    if (out_.last_starter[i] != kNoNode) {
      ReadCollective(i);
    } else if (node.kind == Kind::kSyncCall) {
      const int64_t done = busy_[rank_of_[node.track]].LastBefore(EndOf(node), node.begin_ns);
      Put(i, Measure::kHostSelf, EndOf(node) - std::max(done, node.begin_ns));
    } else {
      ReadOwnTime(i);
    }
    // Below a synthetic root a thread may simply have had nothing to do.
    const bool below_engine =
        node.parent == kNoNode || (step_.nodes[Index(node.parent)].layer == Layer::kEngine &&
                                   !IsSynthetic(step_.nodes[Index(node.parent)]));
    if (below_engine && node.gap_before_ns >= 0) Put(i, Measure::kGapBefore, gap_[i]);
    if (node.parent == kNoNode) Put(i, Measure::kStep, node.duration_ns);
  }

  void ReadOwnTime(std::size_t i) {
    const StepNode& node = step_.nodes[i];
    const int64_t blocked =
        blocked_[node.track].Between(node.begin_ns, EndOf(node)) - children_blocked_[i];
    const int64_t self = node.duration_ns - children_ns_[i] - blocked;
    if (last_child_end_[i] == INT64_MIN) {
      Put(i, Measure::kDuration, self);
    } else {
      Put(i, Measure::kHostSelf, node.layer == Layer::kEngine ? self - gaps_ns_[i] : self);
    }
  }

  const StepForest& step_;
  std::vector<std::size_t> rank_of_;  // by track
  std::vector<Coverage> busy_;        // by rank: its devices
  std::vector<Coverage> blocked_;     // by track: collectives on other host threads of its rank
  std::vector<int64_t> children_ns_, children_blocked_, gaps_ns_, last_child_end_, gap_;
  std::vector<NodeId> launch_;
  int32_t occurrence_ = 0;
  StepReadings out_;
};

}  // namespace

StepReadings ReadStep(const StepForest& step) { return StepReader(step).Read(); }

}  // namespace teller::localize
