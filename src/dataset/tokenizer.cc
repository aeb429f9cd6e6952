#include "src/dataset/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::dataset {
namespace {

using reconstruct::StepForest;
using tpe::Mode;

constexpr std::string_view kBarriersNames[] = {"none", "suspects", "random"};

/// Half-open ranges of items that share a track.
template <typename TrackOf>
std::vector<std::pair<std::size_t, std::size_t>> TrackRanges(std::size_t count, TrackOf track_of) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && track_of(end) == track_of(begin)) ++end;
    ranges.emplace_back(begin, end);
  }
  return ranges;
}

uint32_t AtomsPerNode(Mode mode) { return mode == Mode::kAdjacencyPublished ? 2 : 1; }

tpe::Sequence ForMode(Mode mode, tpe::Sequence nodes, std::span<const uint8_t> tags,
                      uint32_t first_tag) {
  return mode == Mode::kAdjacencyPublished ? tpe::PublishedAtoms(nodes, tags, first_tag)
                                           : std::move(nodes);
}

tpe::Sequence SliceSequence(const SliceStep& step, std::size_t begin, std::size_t end, Mode mode,
                            uint32_t run_symbols, std::span<const uint8_t> barrier) {
  tpe::Sequence nodes;
  std::vector<uint8_t> tags;
  for (std::size_t i = begin; i < end; ++i) {
    nodes.push_back({static_cast<uint32_t>(step.context[i].symbol), step.slice.nodes[i].depth,
                     !barrier.empty() && barrier[i] != 0});
    tags.push_back(static_cast<uint8_t>(step.context[i].layer));
  }
  return ForMode(mode, std::move(nodes), tags, run_symbols);
}

auto TrackOf(const SliceStep& step) {
  return [&step](std::size_t i) { return step.context[i].track; };
}

}  // namespace

std::string_view BarriersName(Barriers barriers) {
  return kBarriersNames[static_cast<std::size_t>(barriers)];
}

Barriers ParseBarriers(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kBarriersNames); ++i) {
    if (kBarriersNames[i] == name) return static_cast<Barriers>(i);
  }
  throw ConfigError("barriers: expected none, suspects or random, found '" + std::string(name) +
                    "'");
}

std::vector<std::string> SequenceSymbols(std::span<const std::string> run_symbols) {
  std::vector<std::string> symbols(run_symbols.begin(), run_symbols.end());
  for (int layer = 0; layer < trace::kLayerCount; ++layer) {
    symbols.push_back("<" + std::string(trace::LayerName(static_cast<trace::Layer>(layer))) + ">");
  }
  return symbols;
}

std::vector<tpe::Sequence> SliceSequences(const SliceStep& step, Mode mode, uint32_t run_symbols,
                                          std::span<const uint8_t> barrier) {
  std::vector<tpe::Sequence> sequences;
  for (const auto& [begin, end] : TrackRanges(step.context.size(), TrackOf(step))) {
    sequences.push_back(SliceSequence(step, begin, end, mode, run_symbols, barrier));
  }
  return sequences;
}

SliceStep WholeStep(const StepForest& forest) {
  SliceStep step;
  step.engine_step = forest.engine_step;
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    const auto& node = forest.nodes[i];
    step.slice.nodes.push_back({.node = NodeId{static_cast<int32_t>(i)},
                                .parent = static_cast<int32_t>(node.parent),
                                .depth = node.depth});
    step.context.push_back({node.symbol, node.track, node.layer, 0});
  }
  step.slice.edges = forest.edges;
  for (uint32_t i = 0; i < forest.logs.size(); ++i) step.slice.logs.push_back(i);
  return step;
}

Tokenizer::Tokenizer(const tpe::Vocabulary& vocabulary, std::span<const std::string> run_symbols,
                     Barriers barriers, uint64_t seed)
    : vocabulary_(vocabulary),
      encoder_(vocabulary),
      run_symbols_(static_cast<uint32_t>(run_symbols.size())),
      barriers_(barriers),
      seed_(seed) {
  std::unordered_map<std::string_view, uint32_t> known;
  for (uint32_t i = 1; i < vocabulary.symbols.size(); ++i) known.emplace(vocabulary.symbols[i], i);
  for (const std::string& symbol : SequenceSymbols(run_symbols)) {
    const auto found = known.find(symbol);
    number_.push_back(found == known.end() ? 0 : found->second);
  }
}

void Tokenizer::Renumber(tpe::Sequence& sequence) const {
  for (tpe::Atom& atom : sequence) atom.symbol = number_[atom.symbol];
}

std::vector<uint8_t> Tokenizer::BarriersOf(const SliceStep& step) const {
  std::vector<uint8_t> barrier(step.slice.nodes.size(), 0);
  if (barriers_ == Barriers::kNone) return barrier;
  std::size_t suspects = 0;
  for (std::size_t i = 0; i < barrier.size(); ++i) {
    barrier[i] = step.slice.nodes[i].suspect != 0;
    suspects += barrier[i];
  }
  if (barriers_ == Barriers::kSuspects) return barrier;
  Random random(seed_ ^ static_cast<uint64_t>(step.engine_step), "random barriers");
  std::fill(barrier.begin(), barrier.end(), 0);
  std::fill_n(barrier.begin(), suspects, 1);
  random.Shuffle(std::span(barrier));
  return barrier;
}

void Tokenizer::CountForest(const StepForest& forest, const SliceStep& step,
                            std::span<const uint8_t> barrier, StepTokens& tokens) {
  std::vector<uint8_t> on_forest(forest.nodes.size(), 0);
  for (std::size_t i = 0; i < barrier.size(); ++i) {
    on_forest[Index(step.slice.nodes[i].node)] = barrier[i];
  }
  tokens.forest_nodes = static_cast<uint32_t>(forest.nodes.size());
  tokens.forest_atoms = tokens.forest_nodes * AtomsPerNode(vocabulary_.mode);
  const auto track_of = [&](std::size_t i) { return forest.nodes[i].track; };
  for (const auto& [begin, end] : TrackRanges(forest.nodes.size(), track_of)) {
    tpe::Sequence nodes;
    std::vector<uint8_t> tags;
    for (std::size_t i = begin; i < end; ++i) {
      const auto& node = forest.nodes[i];
      nodes.push_back({static_cast<uint32_t>(node.symbol), node.depth, on_forest[i] != 0});
      tags.push_back(static_cast<uint8_t>(node.layer));
    }
    tpe::Sequence sequence = ForMode(vocabulary_.mode, std::move(nodes), tags, run_symbols_);
    Renumber(sequence);
    tokens.forest_tokens += static_cast<uint32_t>(encoder_.Encode(sequence).size());
  }
}

void Tokenizer::AddTrack(const TrackView& track, std::span<const uint8_t> barrier,
                         StepTokens& out) {
  tpe::Sequence sequence =
      SliceSequence(track.step, track.begin, track.end, vocabulary_.mode, run_symbols_, barrier);
  Renumber(sequence);
  const auto base = static_cast<uint32_t>(out.nodes.size());
  AddNodes(track, out);
  std::vector<int32_t> owner;  // by node of the track: its token
  const std::vector<tpe::Token> encoded = encoder_.Encode(sequence);
  out.decodes = out.decodes != 0 && Decodes(track, sequence, encoded);
  for (const tpe::Token& token : encoded) {
    const uint32_t per_node = AtomsPerNode(vocabulary_.mode);
    // Of two atoms a node the second names it; a token of a type tag alone has no node.
    const uint32_t from = token.first / per_node, to = (token.first + token.count) / per_node;
    StepToken made = Describe(track, from, to);
    made.id = token.id;
    made.depth = token.depth;
    made.first_node = base + from;
    made.node_count = to - from;
    const int32_t parent = track.step.slice.nodes[track.begin + from].parent;
    if (parent >= 0) {
      const std::size_t at = static_cast<std::size_t>(parent) - track.begin;
      made.parent_token = owner[at];
      const StepToken& of = out.tokens[static_cast<std::size_t>(owner[at])];
      made.parent_node = static_cast<uint16_t>(base + at - of.first_node);
    }
    owner.resize(to, static_cast<int32_t>(out.tokens.size()));
    out.tokens.push_back(made);
  }
}

bool Tokenizer::Decodes(const TrackView& track, const tpe::Sequence& sequence,
                        std::span<const tpe::Token> encoded) const {
  const tpe::Sequence decoded = tpe::Decode(vocabulary_, encoded);
  const auto same = [](const tpe::Atom& a, const tpe::Atom& b) {
    return a.symbol == b.symbol && a.depth == b.depth;
  };
  if (!std::ranges::equal(decoded, sequence, same)) return false;
  if (vocabulary_.mode == Mode::kAdjacencyPublished) return true;  // atoms are not nodes
  const std::vector<int32_t> parents = tpe::ParentsOf(decoded);
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const int32_t parent = track.step.slice.nodes[track.begin + i].parent;
    const int32_t expected = parent < 0 ? -1 : parent - static_cast<int32_t>(track.begin);
    if (parents[i] != expected) return false;
  }
  return true;
}

void Tokenizer::AddNodes(const TrackView& track, StepTokens& out) const {
  for (std::size_t i = track.begin; i < track.end; ++i) {
    const NodeContext& context = track.step.context[i];
    const slice::SliceNode& kept = track.step.slice.nodes[i];
    const int64_t duration_ns = track.forest.nodes[Index(kept.node)].duration_ns;
    out.nodes.push_back({kept.node, context.symbol, track.rank, context.residual,
                         std::log1p(static_cast<float>(duration_ns)), kept.suspect});
    out.unknown_symbols += number_[static_cast<uint32_t>(context.symbol)] == 0;
  }
}

StepToken Tokenizer::Describe(const TrackView& track, uint32_t from, uint32_t to) {
  const auto forest_node = [&](std::size_t i) -> const reconstruct::StepNode& {
    return track.forest.nodes[Index(track.step.slice.nodes[i].node)];
  };
  const std::size_t first = track.begin + from;
  StepToken token{.rank = track.rank, .track = track.step.context[first].track};
  token.layer = static_cast<uint8_t>(track.step.context[first].layer);
  token.root_ns = forest_node(first).duration_ns;
  for (std::size_t i = first; i < track.begin + to; ++i) {
    const slice::SliceNode& kept = track.step.slice.nodes[i];
    token.host_ns += forest_node(i).host_self_ns + kept.elided_host_ns;
    token.device_ns += forest_node(i).device_busy_ns + kept.elided_device_ns;
    const float residual = track.step.context[i].residual;
    if (i > first && residual <= token.residual) continue;
    token.residual = residual;
    token.residual_node = static_cast<uint32_t>(i - first);
  }
  return token;
}

bool Tokenizer::TimesAddUp(const StepForest& forest, const StepTokens& tokens) {
  std::vector<int64_t> host_ns(forest.tracks.size(), 0), device_ns(forest.tracks.size(), 0);
  for (const reconstruct::StepNode& node : forest.nodes) {
    host_ns[node.track] += node.host_self_ns;
    device_ns[node.track] += node.device_busy_ns;
  }
  for (const StepToken& token : tokens.tokens) {
    host_ns[token.track] -= token.host_ns;
    device_ns[token.track] -= token.device_ns;
  }
  const auto is_zero = [](int64_t left) { return left == 0; };
  return std::ranges::all_of(host_ns, is_zero) && std::ranges::all_of(device_ns, is_zero);
}

StepTokens Tokenizer::Tokenize(const StepForest& forest, const SliceStep& step,
                               std::span<const RankId> ranks) {
  StepTokens tokens;
  tokens.engine_step = step.engine_step;
  tokens.slice_nodes = static_cast<uint32_t>(step.slice.nodes.size());
  for (std::size_t i = 0; i < step.slice.nodes.size(); ++i) {
    const std::size_t node = Index(step.slice.nodes[i].node);
    if (node >= forest.nodes.size() || forest.nodes[node].track != step.context[i].track ||
        forest.nodes[node].symbol != step.context[i].symbol) {
      throw DataError("step " + std::to_string(step.engine_step) +
                      ": the slice is of another forest; cut it again from these steps");
    }
  }
  const std::vector<uint8_t> barrier = BarriersOf(step);
  CountForest(forest, step, barrier, tokens);
  tokens.decodes = 1;
  for (const auto& [begin, end] : TrackRanges(step.context.size(), TrackOf(step))) {
    const RankId rank = forest.tracks[step.context[begin].track].rank;
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    AddTrack({forest, step, begin, end, static_cast<uint16_t>(found - ranks.begin())}, barrier,
             tokens);
  }
  tokens.times_add_up = TimesAddUp(forest, tokens);
  return tokens;
}

}  // namespace teller::dataset
