#include "src/slice/slice.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "src/core/error.h"

namespace teller::slice {
namespace {

using reconstruct::EdgeType;
using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr std::size_t kNone = SIZE_MAX;

/// For every node a list of others, all in one array.
class NodeLists {
 public:
  NodeLists(std::size_t nodes, std::vector<std::pair<std::size_t, std::size_t>> links)
      : begin_(nodes + 1, 0), items_(links.size()) {
    for (const auto& [node, other] : links) ++begin_[node + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [node, other] : links) items_[next[node]++] = other;
  }
  std::span<const std::size_t> Of(std::size_t node) const {
    return std::span(items_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<std::size_t> begin_, items_;
};

using Links = std::vector<std::pair<std::size_t, std::size_t>>;

/// Pairs of nodes, both ways, that edges of a kind join: communication, or all else.
Links LinksOf(const StepForest& step, bool communication) {
  Links links;
  for (const auto& edge : step.edges) {
    const bool matched = edge.type == EdgeType::kCollective || edge.type == EdgeType::kMessage;
    if (matched != communication) continue;
    links.emplace_back(Index(edge.from), Index(edge.to));
    links.emplace_back(Index(edge.to), Index(edge.from));
  }
  return links;
}

/// Collects the nodes to keep, one part of the rule after the other.
class Cutter {
 public:
  Cutter(const StepForest& step, const localize::StepSuspects& suspects,
         const SliceOptions& options)
      : step_(step),
        suspects_(suspects),
        options_(options),
        kept_(step.nodes.size(), 0),
        launches_(step.nodes.size(), LinksOf(step, false)),
        matched_(step.nodes.size(), LinksOf(step, true)) {}

  CausalSlice Cut() {
    ChooseSuspects();
    if (options_.fill && Room(step_.nodes.size())) {  // all fits: every part of the rule ends here
      std::fill(kept_.begin(), kept_.end(), 1);
      return Assemble();
    }
    LinkSiblings();
    KeepRoots();
    for (const std::size_t node : chosen_) Keep(node);
    for (const std::size_t node : chosen_) KeepAll(launches_.Of(node));
    KeepInstances();
    if (options_.peers) KeepPeers();
    if (options_.subtrees) KeepSubtrees();
    KeepNeighbours();
    if (options_.fill) Fill();
    return Assemble();
  }

 private:
  void ChooseSuspects() {
    for (const localize::Candidate& candidate : suspects_.candidates) {
      if (static_cast<int>(chosen_.size()) >= options_.suspects) break;
      const std::size_t node = Index(candidate.node);
      if (node < step_.nodes.size()) chosen_.push_back(node);
    }
  }

  /// Siblings on both sides of every node; roots of different tracks are no neighbours.
  void LinkSiblings() {
    previous_.assign(step_.nodes.size(), kNone);
    next_.assign(step_.nodes.size(), kNone);
    std::vector<std::size_t> last_child(step_.nodes.size(), kNone);
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].parent == kNoNode) continue;
      std::size_t& last = last_child[Index(step_.nodes[i].parent)];
      previous_[i] = last;
      if (last != kNone) next_[last] = i;
      last = i;
    }
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      if (!matched_.Of(i).empty()) communication_.push_back(i);
    }
  }

  bool Room(std::size_t more) const {
    return count_ + more <= static_cast<std::size_t>(std::max(0, options_.node_budget));
  }

  /// Keeps a node, with its ancestors where those are wanted; all or nothing.
  void Keep(std::size_t node) {
    std::vector<std::size_t> path;
    for (NodeId at{static_cast<int32_t>(node)}; at != kNoNode; at = step_.nodes[Index(at)].parent) {
      if (!kept_[Index(at)] && (options_.ancestors || path.empty())) path.push_back(Index(at));
      if (kept_[Index(at)] || !options_.ancestors) break;
    }
    if (!Room(path.size())) return;
    for (const std::size_t at : path) kept_[at] = 1;
    count_ += path.size();
  }
  void KeepAll(std::span<const std::size_t> nodes) {
    for (const std::size_t node : nodes) Keep(node);
  }

  void KeepRoots() {
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].parent != kNoNode) continue;
      kept_[i] = 1;
      ++count_;
    }
  }

  /// A slow operator is slow wherever it runs: candidates name its worst instance only.
  void KeepInstances() {
    const auto share = static_cast<std::size_t>(std::max(0, options_.node_budget)) / 8;
    for (std::size_t k = 0; k < chosen_.size() && static_cast<int>(k) < options_.instances; ++k) {
      const StepNode& suspect = step_.nodes[chosen_[k]];
      const RankId rank = step_.tracks[suspect.track].rank;
      std::vector<std::size_t> instances;
      for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
        const StepNode& node = step_.nodes[i];
        if (node.symbol == suspect.symbol && step_.tracks[node.track].rank == rank) {
          instances.push_back(i);
        }
      }
      SortByResidual(instances);
      const std::size_t limit = count_ + share;
      for (const std::size_t node : instances) {
        if (count_ >= limit) break;
        Keep(node);
      }
    }
  }

  void SortByResidual(std::vector<std::size_t>& nodes) const {
    const auto residual = [this](std::size_t i) {
      return i < suspects_.node_residual.size() ? suspects_.node_residual[i] : 0.0f;
    };
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](std::size_t a, std::size_t b) { return residual(a) > residual(b); });
  }

  /// The collectives next to each suspect on its rank (or it itself), their members on other ranks,
  /// and what led there.
  void KeepPeers() {
    for (const std::size_t node : chosen_) {
      for (const std::size_t collective : CollectivesAround(node)) {
        Keep(collective);
        for (const std::size_t peer : matched_.Of(collective)) {
          Keep(peer);
          KeepBefore(peer);
          for (const std::size_t launch : launches_.Of(peer)) KeepBefore(launch);
        }
      }
    }
  }

  std::vector<std::size_t> CollectivesAround(std::size_t node) const {
    if (!matched_.Of(node).empty()) return {node};
    const RankId rank = step_.tracks[step_.nodes[node].track].rank;
    const int64_t begin = step_.nodes[node].begin_ns;
    std::size_t before = kNone, after = kNone;
    for (const std::size_t i : communication_) {
      const StepNode& other = step_.nodes[i];
      if (step_.tracks[other.track].rank != rank) continue;
      const bool earlier = other.begin_ns < begin;
      std::size_t& best = earlier ? before : after;
      if (best == kNone || earlier == (other.begin_ns > step_.nodes[best].begin_ns)) best = i;
    }
    std::vector<std::size_t> found;
    if (after != kNone) found.push_back(after);
    if (before != kNone) found.push_back(before);
    return found;
  }

  /// The siblings just before a node, or before its nearest ancestor that is no first child.
  void KeepBefore(std::size_t node) {
    Keep(node);
    while (previous_[node] == kNone) {
      const NodeId parent = step_.nodes[node].parent;
      if (parent == kNoNode) return;
      node = Index(parent);
    }
    KeepAlong(previous_, node, options_.neighbours);
  }
  /// Up to `count` siblings of a node in one direction.
  void KeepAlong(const std::vector<std::size_t>& direction, std::size_t node, int count) {
    for (int i = 0; i < count && (node = direction[node]) != kNone; ++i) Keep(node);
  }

  void KeepSubtrees() {
    for (const std::size_t node : chosen_) {
      for (std::size_t i = node + 1; i < step_.nodes.size(); ++i) {
        if (step_.nodes[i].track != step_.nodes[node].track ||
            step_.nodes[i].depth <= step_.nodes[node].depth) {
          break;
        }
        Keep(i);
        KeepAll(launches_.Of(i));
      }
    }
  }

  void KeepNeighbours() {
    for (const std::size_t node : chosen_) {
      KeepAlong(previous_, node, options_.neighbours);
      KeepAlong(next_, node, options_.neighbours);
    }
  }

  void Fill() {
    std::vector<std::size_t> order(step_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    SortByResidual(order);
    for (const std::size_t node : order) {
      if (!Room(1)) break;
      if (!kept_[node]) Keep(node);
    }
  }

  CausalSlice Assemble() const {
    CausalSlice slice;
    slice.nodes.reserve(static_cast<std::size_t>(std::count(kept_.begin(), kept_.end(), 1)));
    std::vector<int32_t> at(step_.nodes.size(),
                            -1);  // of the node itself, else of its nearest kept ancestor
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      const StepNode& node = step_.nodes[i];
      const int32_t above = node.parent == kNoNode ? -1 : at[Index(node.parent)];
      if (!kept_[i]) {
        at[i] = above;
        slice.nodes[static_cast<std::size_t>(above)].elided_host_ns += node.host_self_ns;
        slice.nodes[static_cast<std::size_t>(above)].elided_device_ns += node.device_busy_ns;
        continue;
      }
      at[i] = static_cast<int32_t>(slice.nodes.size());
      SliceNode kept{.node = NodeId{static_cast<int32_t>(i)}, .parent = above};
      if (above >= 0) {
        const SliceNode& parent = slice.nodes[static_cast<std::size_t>(above)];
        kept.depth = static_cast<uint16_t>(parent.depth + 1);
        kept.elided = parent.node != node.parent;
      }
      slice.nodes.push_back(kept);
    }
    for (std::size_t k = 0; k < chosen_.size(); ++k) {
      if (!kept_[chosen_[k]]) continue;
      slice.nodes[static_cast<std::size_t>(at[chosen_[k]])].suspect =
          static_cast<uint8_t>(std::min<std::size_t>(255, k + 1));
    }
    AddEdges(at, slice);
    AddLogs(slice);
    return slice;
  }

  void AddEdges(const std::vector<int32_t>& at, CausalSlice& slice) const {
    for (const auto& edge : step_.edges) {
      if (!kept_[Index(edge.from)] || !kept_[Index(edge.to)]) continue;
      slice.edges.push_back({NodeId{at[Index(edge.from)]}, NodeId{at[Index(edge.to)]}, edge.type});
    }
  }
  void AddLogs(CausalSlice& slice) const {
    if (!options_.logs) return;
    for (std::size_t i = 0; i < step_.logs.size() && static_cast<int>(i) < options_.log_budget;
         ++i) {
      slice.logs.push_back(static_cast<uint32_t>(i));
    }
  }

  const StepForest& step_;
  const localize::StepSuspects& suspects_;
  const SliceOptions& options_;
  std::vector<uint8_t> kept_;
  std::size_t count_ = 0;
  std::vector<std::size_t> chosen_;
  NodeLists launches_, matched_;
  std::vector<std::size_t> previous_, next_;  // siblings
  std::vector<std::size_t> communication_;    // all matched nodes
};

}  // namespace

CausalSlice CutSlice(const StepForest& step, const localize::StepSuspects& suspects,
                     const SliceOptions& options) {
  return Cutter(step, suspects, options).Cut();
}

std::size_t CountKept(const CausalSlice& slice, std::span<const NodeId> nodes) {
  std::vector<NodeId> kept;
  for (const SliceNode& node : slice.nodes) kept.push_back(node.node);
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [&](NodeId node) {
    return std::binary_search(kept.begin(), kept.end(), node);
  }));
}

}  // namespace teller::slice
