#include "src/reconstruct/run_builder.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "src/core/error.h"
#include "src/reconstruct/rank_steps.h"
#include "src/reconstruct/requests.h"

namespace teller::reconstruct {
namespace {

constexpr std::size_t kNoMatch = SIZE_MAX;

// By StringId: what each name says under the first rule that any name follows.
std::vector<std::optional<StepName>> MatchNames(const StringInterner& strings,
                                                const std::vector<StepRule>& rules) {
  for (const StepRule& rule : rules) {
    const StepMatcher matcher(rule);
    std::vector<std::optional<StepName>> names;
    bool any = false;
    for (std::size_t i = 0; i < strings.size(); ++i) {
      names.push_back(matcher.Match(strings.View(StringId{static_cast<uint32_t>(i)})));
      any |= names.back().has_value();
    }
    if (any) return names;
  }
  return std::vector<std::optional<StepName>>(strings.size());
}

void AddTreeStats(const TreeStats& trees, BuildStats& stats) {
  const std::pair<const char*, int64_t> counters[] = {
      {"events_backwards", trees.backwards},
      {"events_without_timing", trees.without_timing},
      {"events_joined", trees.joined},
      {"ranges_across_threads", trees.across_threads},
      {"events_too_deep", trees.too_deep},
      {"events_cut_to_parent", trees.cut_to_parent},
      {"events_cut_to_sibling", trees.cut_to_sibling}};
  for (const auto& [name, count] : counters) {
    if (count != 0) stats[name] += count;
  }
}

bool SameNamesInOrder(const RankSteps& a, const RankSteps& b) {
  return std::ranges::equal(
      a.steps, b.steps, {}, [](const RankStep& s) { return s.range.raw_name; },
      [](const RankStep& s) { return s.range.raw_name; });
}

int64_t BaseBegin(const RankSteps& rank, std::size_t step) {
  return rank.clock.ToBase(rank.steps[step].range.begin_ns);
}
int64_t BaseEnd(const RankSteps& rank, std::size_t step) {
  return rank.clock.ToBase(rank.steps[step].range.end_ns);
}

// For each step of `reference` the step of `other` that overlaps it most; each is used once, by the
// larger overlap.
std::vector<std::size_t> MatchByOverlap(const RankSteps& reference, const RankSteps& other) {
  std::vector<std::size_t> partner(reference.steps.size(), kNoMatch);
  std::vector<int64_t> overlap_ns(reference.steps.size(), 0);
  std::size_t first = 0;
  for (std::size_t o = 0; o < other.steps.size(); ++o) {
    while (first < reference.steps.size() && BaseEnd(reference, first) <= BaseBegin(other, o))
      ++first;
    std::size_t best = kNoMatch;
    int64_t best_ns = 0;
    for (std::size_t r = first;
         r < reference.steps.size() && BaseBegin(reference, r) < BaseEnd(other, o); ++r) {
      const int64_t shared_ns = std::min(BaseEnd(reference, r), BaseEnd(other, o)) -
                                std::max(BaseBegin(reference, r), BaseBegin(other, o));
      if (shared_ns > best_ns) std::tie(best, best_ns) = std::pair(r, shared_ns);
    }
    if (best == kNoMatch || best_ns <= overlap_ns[best]) continue;
    partner[best] = o;
    overlap_ns[best] = best_ns;
  }
  return partner;
}

std::vector<std::size_t> MatchByOrder(const RankSteps& reference, const RankSteps& other) {
  std::vector<std::size_t> partner(reference.steps.size(), kNoMatch);
  const std::size_t count = std::min(reference.steps.size(), other.steps.size());
  std::iota(partner.begin(), partner.begin() + static_cast<std::ptrdiff_t>(count), std::size_t{0});
  return partner;
}

std::vector<std::size_t> MatchSteps(const RankSteps& reference, const RankSteps& other) {
  if (SameNamesInOrder(reference, other)) return MatchByOrder(reference, other);
  const bool related = reference.clock.method != ClockMethod::kUnrelated &&
                       other.clock.method != ClockMethod::kUnrelated;
  return related ? MatchByOverlap(reference, other) : MatchByOrder(reference, other);
}

// Where a collective record's node ended up in the run.
struct NodePlace {
  std::size_t step = kNoMatch;
  NodeId node = kNoNode;
};

}  // namespace

struct RunBuilder::State {
  const StringInterner& strings;
  std::vector<std::optional<StepName>> names;
  RunForest run;
  SymbolCache symbols;
  SymbolId thread_root, stream_root;
  std::map<RankId, RankSteps> ranks;
  std::vector<RankSteps> rankless;  // in the order of their processes
  BuildStats stats;
  std::vector<RequestMark> request_marks;
  std::map<std::pair<int, std::size_t>, NodePlace> places;  // of collectives, by (process, event)

  State(const StringInterner& strings_in, const BuildOptions& options)
      : strings(strings_in),
        names(MatchNames(strings_in, options.step_rules)),
        symbols(strings_in, run.symbols) {
    thread_root = SymbolId{static_cast<uint32_t>(Index(run.symbols.Intern("(thread)")))};
    stream_root = SymbolId{static_cast<uint32_t>(Index(run.symbols.Intern("(stream)")))};
  }

  void KeepRequestMarks(const trace::EventTable& events, const ClockMap& clock) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.kind[i] != trace::Kind::kMark) continue;
      auto mark = ParseRequestMark(strings.View(events.name[i]), clock.ToBase(events.begin_ns[i]));
      if (mark) request_marks.push_back(std::move(*mark));
    }
  }

  void Keep(RankSteps steps) {
    if (steps.rank == kNoRank) {
      rankless.push_back(std::move(steps));
      return;
    }
    auto [found, fresh] = ranks.try_emplace(steps.rank);
    if (!fresh) ++stats["processes_of_a_rank_taken"];
    if (fresh || steps.steps.size() > found->second.steps.size()) found->second = std::move(steps);
  }

  void RankByOrder() {
    if (rankless.empty()) return;
    stats[ranks.empty() ? "ranks_by_order" : "processes_with_steps_without_rank"] +=
        static_cast<int64_t>(rankless.size());
    if (!ranks.empty()) return;
    for (RankSteps& steps : rankless) {
      steps.rank = RankId{static_cast<int32_t>(ranks.size())};
      ranks.emplace(steps.rank, std::move(steps));
    }
  }

  const RankSteps* Reference() const {
    const RankSteps* reference = nullptr;
    for (const auto& [id, rank] : ranks) {
      if (reference == nullptr || rank.steps.size() > reference->steps.size()) reference = &rank;
    }
    return reference;
  }

  // Adds one rank's part of a step; answers where its nodes begin.
  static int32_t AddPart(const RankSteps& rank, RankStep& part, StepForest& step) {
    const auto offset = static_cast<int32_t>(step.nodes.size());
    const auto track_offset = static_cast<uint16_t>(step.tracks.size());
    step.ranks.push_back(rank.rank);
    step.rank_begin_ns.push_back(rank.clock.ToBase(part.range.begin_ns));
    step.rank_end_ns.push_back(rank.clock.ToBase(part.range.end_ns));
    for (const uint32_t track : part.tracks)
      step.tracks.push_back({rank.rank, track, rank.tracks[track].device});
    const auto moved = [&](NodeId id) {
      return id == kNoNode ? kNoNode : NodeId{static_cast<int32_t>(id) + offset};
    };
    for (StepNode node : part.nodes) {
      node.parent = moved(node.parent);
      node.track = static_cast<uint16_t>(node.track + track_offset);
      step.nodes.push_back(node);
    }
    for (const StepEdge& edge : part.edges)
      step.edges.push_back({moved(edge.from), moved(edge.to), edge.type});
    return offset;
  }

  // The run's steps are the reference rank's; every rank adds its part to the step it matches.
  void MergeRanks(const RankSteps& reference) {
    run.steps.resize(reference.steps.size());
    for (std::size_t s = 0; s < run.steps.size(); ++s) {
      run.steps[s].engine_step = static_cast<int64_t>(s);
      run.steps[s].context_tokens = -1;
    }
    for (auto& [id, rank] : ranks) {
      const bool itself = &rank == &reference;
      AddRank(rank, itself ? MatchByOrder(reference, rank) : MatchSteps(reference, rank));
    }
    for (StepForest& step : run.steps) {
      step.begin_ns = std::ranges::min(step.rank_begin_ns);
      step.end_ns = std::ranges::max(step.rank_end_ns);
    }
  }

  void AddRank(RankSteps& rank, const std::vector<std::size_t>& partner) {
    const auto unmatched =
        static_cast<int64_t>(rank.steps.size()) -
        std::ranges::count_if(partner, [](std::size_t p) { return p != kNoMatch; });
    if (unmatched > 0) stats["steps_of_a_rank_unmatched"] += unmatched;
    for (std::size_t s = 0; s < partner.size(); ++s) {
      if (partner[s] == kNoMatch) continue;
      RankStep& part = rank.steps[partner[s]];
      const int32_t offset = AddPart(rank, part, run.steps[s]);
      NameStep(part.range, run.steps[s]);
      for (const CollectiveNode& c : part.collectives) {
        places[{rank.process, c.event}] = {s, NodeId{static_cast<int32_t>(c.node) + offset}};
      }
      part = RankStep{.range = part.range};  // frees its nodes
    }
  }

  // When a rank itself joined a collective.
  int64_t EntryOnBase(const NodePlace& place) const {
    const StepForest& step = run.steps[place.step];
    const StepNode& node = step.nodes[Index(place.node)];
    const auto rank =
        std::ranges::find(step.ranks, step.tracks[node.track].rank) - step.ranks.begin();
    return step.rank_begin_ns[static_cast<std::size_t>(rank)] + node.begin_ns + node.entry_delay_ns;
  }

  // An edge from the last starter (ties: the lower rank) to every other member.
  void JoinCollective(const std::vector<NodePlace>& members) {
    if (members.empty()) return;
    const NodePlace& last =
        *std::ranges::max_element(members, {}, [&](const NodePlace& p) { return EntryOnBase(p); });
    for (const NodePlace& member : members) {
      if (&member == &last) continue;
      if (member.step != last.step) {
        ++stats["collectives_across_steps"];
        continue;
      }
      run.steps[last.step].edges.push_back({last.node, member.node, EdgeType::kCollective});
    }
  }

  void JoinCollectives(std::span<const CollectiveRecord> records,
                       std::span<const MatchedCollective> matched) {
    for (const MatchedCollective& collective : matched) {
      std::vector<NodePlace> members;
      for (const std::size_t i : collective.records) {
        const auto found = places.find({records[i].process, records[i].event});
        if (found != places.end()) members.push_back(found->second);
      }
      JoinCollective(members);
    }
  }

  void NameStep(const StepRange& range, StepForest& step) const {
    if (step.phase == Phase::kUnknown) step.phase = range.name.phase;
    if (step.batch_size == 0) step.batch_size = range.name.batch_size;
    if (step.context_tokens < 0) step.context_tokens = range.name.context_tokens;
    if (range.request == kNoString || !step.requests.empty()) return;
    std::string_view list = strings.View(range.request);
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      if (comma > 0) step.requests.emplace_back(list.substr(0, comma));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
};

RunBuilder::RunBuilder(const StringInterner& strings, const BuildOptions& options)
    : state_(std::make_unique<State>(strings, options)) {}
RunBuilder::~RunBuilder() = default;
const BuildStats& RunBuilder::stats() const { return state_->stats; }

void RunBuilder::AddProcess(int process, const trace::ProcessInfo& info,
                            const trace::EventTable& events, const ClockMap& clock) {
  state_->KeepRequestMarks(events, clock);
  TreeStats tree_stats;
  const std::vector<CallTree> trees = BuildCallTrees(events, tree_stats);
  AddTreeStats(tree_stats, state_->stats);
  StepRanges found = FindStepRanges(trees, events, state_->names);
  if (found.ranges.empty()) {
    if (events.size() > 0) {
      state_->stats["events_of_processes_without_steps"] += static_cast<int64_t>(events.size());
    }
    return;
  }
  RankSteps steps{.rank = info.rank, .process = process, .clock = clock};
  for (StepRange& range : found.ranges) steps.steps.push_back({.range = range});
  FillRankSteps(trees, found.tree, events, state_->symbols, state_->thread_root,
                state_->stream_root, steps, state_->stats);
  state_->Keep(std::move(steps));
}

RunForest RunBuilder::Finish(std::span<const CollectiveRecord> records,
                             std::span<const MatchedCollective> matched) {
  state_->RankByOrder();
  if (const RankSteps* reference = state_->Reference()) {
    state_->MergeRanks(*reference);
    state_->JoinCollectives(records, matched);
    AssignRequests(std::move(state_->request_marks), state_->run.steps);
  }
  return std::move(state_->run);
}

}  // namespace teller::reconstruct
