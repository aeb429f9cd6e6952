#include "src/reconstruct/rank_steps.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "src/core/error.h"
#include "src/reconstruct/collectives.h"
#include "src/reconstruct/symbol.h"

namespace teller::reconstruct {
namespace {

using trace::EventTable;
using trace::Kind;
using trace::Layer;

constexpr SymbolId kUnknownSymbol{0xffffffffu};
constexpr int32_t kNoStep = -1;

std::vector<StepRange> RangesOf(const CallTree& tree, const EventTable& events,
                                const std::vector<std::optional<StepName>>& names) {
  std::vector<StepRange> ranges;
  for (int32_t i = 0; i < static_cast<int32_t>(tree.size());) {
    const uint32_t event = tree.event[static_cast<std::size_t>(i)];
    const auto& name = names[Index(events.name[event])];
    if (events.layer[event] != Layer::kEngine || events.kind[event] == Kind::kMark || !name) {
      ++i;
      continue;
    }
    const auto at = static_cast<std::size_t>(i);
    ranges.push_back(
        {tree.begin_ns[at], tree.end_ns[at], i, events.name[event], *name, events.request[event]});
    i = tree.next[at];
  }
  return ranges;
}

// Where a launch stands: its step, its node and how deep it is.
struct LaunchPlace {
  int32_t step = kNoStep;
  NodeId node = kNoNode;
  int32_t depth = -1;
};

class StepFiller {
 public:
  StepFiller(const EventTable& events, SymbolCache& symbols, SymbolId thread_root,
             SymbolId stream_root, RankSteps& steps, std::map<std::string, int64_t>& stats)
      : events_(events),
        symbols_(symbols),
        thread_root_(thread_root),
        stream_root_(stream_root),
        rank_(steps),
        stats_(stats),
        entries_(EntriesOf(events)) {}

  void Fill(const std::vector<CallTree>& trees, std::size_t step_tree) {
    AddTrack(trees[step_tree], [&](const CallTree& tree) { PlaceStepThread(tree); });
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (i != step_tree && !trees[i].key.device)
        AddTrack(trees[i], [&](const CallTree& t) { PlaceThread(t); });
    }
    for (const CallTree& tree : trees) {
      if (tree.key.device) AddTrack(tree, [&](const CallTree& t) { PlaceStream(t); });
    }
    JoinThreads();
  }

 private:
  // An open group: the nodes of the current track in one step.
  struct Group {
    std::size_t first = 0;
    bool open = false;
  };

  template <typename Place>
  void AddTrack(const CallTree& tree, Place place) {
    groups_.assign(rank_.steps.size(), {});
    dense_ = static_cast<uint32_t>(rank_.tracks.size());
    device_ = tree.key.device;
    rank_.tracks.push_back(tree.key);
    place(tree);
    FinishGroups();
  }

  // The step whose range holds this time; kNoStep between steps.
  int32_t StepAt(int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(rank_.steps, time_ns, {},
                                                [](const RankStep& s) { return s.range.begin_ns; });
    if (after == rank_.steps.begin()) return kNoStep;
    const auto step = after - 1;
    return time_ns < step->range.end_ns ? static_cast<int32_t>(step - rank_.steps.begin())
                                        : kNoStep;
  }

  int64_t NextBegin(int32_t step) const {
    const auto next = static_cast<std::size_t>(step) + 1;
    return next < rank_.steps.size() ? rank_.steps[next].range.begin_ns : INT64_MAX;
  }

  void PlaceStepThread(const CallTree& tree) {
    int32_t covered = 0;
    for (std::size_t s = 0; s < rank_.steps.size(); ++s) {
      const int32_t first = rank_.steps[s].range.position;
      const int32_t last = tree.next[static_cast<std::size_t>(first)];
      Outside(tree, covered, first);
      Open(static_cast<int32_t>(s), /*with_root=*/false);
      CopySubtree(tree, first, last, static_cast<int32_t>(s));
      covered = last;
    }
    Outside(tree, covered, static_cast<int32_t>(tree.size()));
  }

  void PlaceThread(const CallTree& tree) {
    for (int32_t i = 0; i < static_cast<int32_t>(tree.size());) {
      const auto at = static_cast<std::size_t>(i);
      const int32_t step = StepAt(tree.begin_ns[at]);
      const bool leaf = tree.next[at] == i + 1;
      if (step == kNoStep || (!leaf && tree.end_ns[at] > NextBegin(step))) {
        Outside(tree, i, i + 1);
        ++i;
        continue;
      }
      Open(step, /*with_root=*/true);
      CopySubtree(tree, i, tree.next[at], step);
      i = tree.next[at];
    }
  }

  // Items of a stream are placed one by one: an item's parent is its nearest ancestor in the same
  // step.
  void PlaceStream(const CallTree& tree) {
    std::vector<std::pair<int32_t, NodeId>> places(tree.size(), {kNoStep, kNoNode});
    for (std::size_t i = 0; i < tree.size(); ++i) {
      const uint32_t event = tree.event[i];
      const auto launch = launches_.find(events_.correlation[event]);
      const bool launched = events_.correlation[event] != 0 && launch != launches_.end();
      const int32_t step = launched ? launch->second.step : StepAt(tree.begin_ns[i]);
      if (step == kNoStep) {
        ++stats_["device_items_outside_steps"];
        continue;
      }
      if (!launched) ++stats_["device_items_without_launch"];
      Open(step, /*with_root=*/true);
      NodeId parent = RootOf(step);
      for (int32_t up = tree.parent[i]; up >= 0; up = tree.parent[static_cast<std::size_t>(up)]) {
        if (places[static_cast<std::size_t>(up)].first != step) continue;
        parent = places[static_cast<std::size_t>(up)].second;
        break;
      }
      const NodeId node = AddNode(step, parent, event, tree.begin_ns[i], tree.end_ns[i]);
      places[i] = {step, node};
      if (launched) StepOf(step).edges.push_back({launch->second.node, node, EdgeType::kLaunch});
    }
  }

  RankStep& StepOf(int32_t step) { return rank_.steps[static_cast<std::size_t>(step)]; }
  NodeId RootOf(int32_t step) const {
    return NodeId{static_cast<int32_t>(groups_[static_cast<std::size_t>(step)].first)};
  }

  void Outside(const CallTree& tree, int32_t first, int32_t last) {
    for (int32_t i = first; i < last; ++i) {
      ++stats_["host_events_outside_steps"];
      RememberLaunch(tree.event[static_cast<std::size_t>(i)], kNoStep, kNoNode, 0);
    }
  }

  // Starts the current track in this step; other tracks than the step's own get a synthetic root.
  void Open(int32_t step, bool with_root) {
    Group& group = groups_[static_cast<std::size_t>(step)];
    if (group.open) return;
    group = {StepOf(step).nodes.size(), true};
    StepOf(step).tracks.push_back(dense_);
    if (!with_root) return;
    StepNode root;
    root.symbol = device_ ? stream_root_ : thread_root_;
    root.layer = device_ ? Layer::kDevice : Layer::kEngine;
    root.kind = Kind::kRange;
    root.track = static_cast<uint16_t>(StepOf(step).tracks.size() - 1);
    StepOf(step).nodes.push_back(root);
  }

  void CopySubtree(const CallTree& tree, int32_t first, int32_t last, int32_t step) {
    const bool rooted = dense_ != 0;
    const auto offset = static_cast<int32_t>(StepOf(step).nodes.size()) - first;
    for (int32_t i = first; i < last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      NodeId parent = rooted ? RootOf(step) : kNoNode;
      if (i > first) parent = NodeId{tree.parent[at] + offset};
      AddNode(step, parent, tree.event[at], tree.begin_ns[at], tree.end_ns[at]);
    }
  }

  NodeId AddNode(int32_t step, NodeId parent, uint32_t event, int64_t begin_ns, int64_t end_ns) {
    RankStep& target = StepOf(step);
    const NodeId id{static_cast<int32_t>(target.nodes.size())};
    StepNode node;
    node.symbol = symbols_.Of(events_.name[event], events_.layer[event]);
    node.track = static_cast<uint16_t>(target.tracks.size() - 1);
    node.layer = events_.layer[event];
    node.kind = events_.kind[event];
    node.parent = parent;
    node.depth = parent == kNoNode ? uint16_t{0}
                                   : static_cast<uint16_t>(target.nodes[Index(parent)].depth + 1);
    node.begin_ns = begin_ns - target.range.begin_ns;
    node.duration_ns = end_ns - begin_ns;
    node.bytes = events_.bytes[event];
    node.sequence = events_.sequence[event];
    if (node.kind == Kind::kCollective) {
      node.entry_delay_ns = EntryDelay(event, begin_ns, end_ns);
      target.collectives.push_back({event, id});
    }
    target.nodes.push_back(node);
    RememberLaunch(event, step, id, node.depth);
    return id;
  }

  // The host may have called before the stream came to it: then the rank joined at the begin.
  int64_t EntryDelay(uint32_t event, int64_t begin_ns, int64_t end_ns) const {
    const auto entry = entries_.find({events_.comm[event], events_.sequence[event]});
    return entry == entries_.end() ? 0 : std::clamp(entry->second, begin_ns, end_ns) - begin_ns;
  }

  // A launch is the innermost host call of its correlation id (a driver call inside a runtime
  // call).
  void RememberLaunch(uint32_t event, int32_t step, NodeId node, int32_t depth) {
    if (events_.layer[event] != Layer::kHostApi || events_.correlation[event] == 0) return;
    LaunchPlace& place = launches_[events_.correlation[event]];
    if (place.step == kNoStep || (step != kNoStep && depth > place.depth))
      place = {step, node, depth};
  }

  void FinishGroups() {
    for (std::size_t s = 0; s < groups_.size(); ++s) {
      if (groups_[s].open) FinishGroup(rank_.steps[s], groups_[s].first);
    }
    CountRootGaps();
  }

  // Root extent, self times and gaps of the nodes from `first` on.
  void FinishGroup(RankStep& step, std::size_t first) {
    const std::span<StepNode> nodes = std::span(step.nodes).subspan(first);
    if (dense_ != 0) FitRoot(nodes);
    std::vector<int64_t> cursor_ns(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      StepNode& node = nodes[i];
      cursor_ns[i] = node.begin_ns;
      Self(node) = device_ && i == 0 ? 0 : node.duration_ns;
      if (node.parent == kNoNode) continue;
      const std::size_t parent = Index(node.parent) - first;
      node.gap_before_ns = node.begin_ns - cursor_ns[parent];
      cursor_ns[parent] = node.begin_ns + node.duration_ns;
      if (!device_ || parent != 0) Self(nodes[parent]) -= node.duration_ns;
    }
  }

  int64_t& Self(StepNode& node) const { return device_ ? node.device_busy_ns : node.host_self_ns; }

  static void FitRoot(std::span<StepNode> nodes) {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (const StepNode& node : nodes.subspan(1)) {
      begin_ns = std::min(begin_ns, node.begin_ns);
      end_ns = std::max(end_ns, node.begin_ns + node.duration_ns);
    }
    nodes.front().begin_ns = begin_ns;
    nodes.front().duration_ns = end_ns - begin_ns;
  }

  void CountRootGaps() {
    std::optional<int64_t> previous_end_ns;
    for (std::size_t s = 0; s < groups_.size(); ++s) {
      if (!groups_[s].open) continue;
      StepNode& root = rank_.steps[s].nodes[groups_[s].first];
      const int64_t begin_ns = rank_.steps[s].range.begin_ns + root.begin_ns;
      root.gap_before_ns = previous_end_ns ? std::max<int64_t>(begin_ns - *previous_end_ns, 0) : -1;
      previous_end_ns = begin_ns + root.duration_ns;
    }
  }

  // A collective on another host thread was caused by the innermost call of the step's own thread
  // that holds its begin.
  void JoinThreads() {
    for (RankStep& step : rank_.steps) {
      for (const CollectiveNode& collective : step.collectives) {
        const StepNode& node = step.nodes[Index(collective.node)];
        if (node.track == 0 || rank_.tracks[step.tracks[node.track]].device) continue;
        const NodeId cause = InnermostAt(step, node.begin_ns);
        if (cause != kNoNode) step.edges.push_back({cause, collective.node, EdgeType::kThread});
      }
    }
  }

  static NodeId InnermostAt(const RankStep& step, int64_t time_ns) {
    NodeId innermost = kNoNode;
    for (std::size_t i = 0; i < step.nodes.size() && step.nodes[i].track == 0; ++i) {
      const StepNode& node = step.nodes[i];
      if (node.begin_ns > time_ns) break;
      if (node.layer == Layer::kBackend && time_ns < node.begin_ns + node.duration_ns) {
        innermost = NodeId{static_cast<int32_t>(i)};
      }
    }
    return innermost;
  }

  const EventTable& events_;
  SymbolCache& symbols_;
  SymbolId thread_root_, stream_root_;
  RankSteps& rank_;
  std::map<std::string, int64_t>& stats_;
  const CollectiveEntries entries_;
  std::vector<Group> groups_;  // by step, of the current track
  std::unordered_map<uint64_t, LaunchPlace> launches_;
  uint32_t dense_ = 0;
  bool device_ = false;
};

}  // namespace

StepRanges FindStepRanges(const std::vector<CallTree>& trees, const EventTable& events,
                          const std::vector<std::optional<StepName>>& names) {
  StepRanges found;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (trees[i].key.device) continue;
    std::vector<StepRange> ranges = RangesOf(trees[i], events, names);
    if (ranges.size() > found.ranges.size()) found = {i, std::move(ranges)};
  }
  return found;
}

SymbolId SymbolCache::Of(StringId name, trace::Layer layer) {
  const std::size_t slot = Index(name) * trace::kLayerCount + static_cast<std::size_t>(layer);
  if (slot >= known_.size()) known_.resize(strings_.size() * trace::kLayerCount, kUnknownSymbol);
  SymbolId& symbol = known_[slot];
  if (symbol == kUnknownSymbol) {
    const StringId id = symbols_.Intern(NormalizeSymbol(strings_.View(name), layer));
    symbol = SymbolId{static_cast<uint32_t>(Index(id))};
  }
  return symbol;
}

void FillRankSteps(const std::vector<CallTree>& trees, std::size_t step_tree,
                   const EventTable& events, SymbolCache& symbols, SymbolId thread_root,
                   SymbolId stream_root, RankSteps& steps, std::map<std::string, int64_t>& stats) {
  StepFiller(events, symbols, thread_root, stream_root, steps, stats).Fill(trees, step_tree);
}

}  // namespace teller::reconstruct
