#include "tests/property/tpe/brute_force.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace teller::testing_support {
namespace {

using tpe::Mode;

/// A token with all that the rules speak of.
struct Piece {
  int32_t entry;
  uint32_t first, count;
  int first_depth, last_depth;
  bool barrier;
};
using PairKey = std::tuple<int32_t, int32_t, int32_t>;

std::vector<Piece> Pieces(const tpe::Sequence& sequence, const std::vector<uint32_t>& number,
                          Mode mode) {
  std::vector<Piece> pieces;
  for (const tpe::Atom& atom : sequence) {
    const int depth = mode == Mode::kAdjacencyPublished ? 0 : atom.depth;
    pieces.push_back({static_cast<int32_t>(number[atom.symbol]),
                      static_cast<uint32_t>(pieces.size()), 1, depth, depth, atom.barrier});
  }
  return pieces;
}

bool Mergeable(const Piece& left, const Piece& right, Mode mode) {
  if (left.barrier || right.barrier || left.entry == 0 || right.entry == 0) return false;
  return mode != Mode::kStructural || right.first_depth >= left.first_depth;
}

PairKey KeyOf(const Piece& left, const Piece& right) {
  return {left.entry, right.entry, right.first_depth - left.last_depth};
}

std::vector<Piece> MergeEverywhere(const std::vector<Piece>& pieces, const PairKey& key,
                                   int32_t entry, Mode mode) {
  std::vector<Piece> merged;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size() && Mergeable(pieces[i], pieces[i + 1], mode) &&
        KeyOf(pieces[i], pieces[i + 1]) == key) {
      merged.push_back({entry, pieces[i].first, pieces[i].count + pieces[i + 1].count,
                        pieces[i].first_depth, pieces[i + 1].last_depth, false});
      ++i;
    } else {
      merged.push_back(pieces[i]);
    }
  }
  return merged;
}

}  // namespace

tpe::Vocabulary BruteForceTrain(const std::vector<tpe::Sequence>& corpus,
                                const std::vector<std::string>& symbols,
                                const tpe::TrainOptions& options) {
  tpe::Vocabulary vocabulary;
  vocabulary.mode = options.mode;
  std::set<std::string> used;
  for (const auto& sequence : corpus) {
    for (const auto& atom : sequence) used.insert(symbols[atom.symbol]);
  }
  vocabulary.symbols.assign(used.begin(), used.end());
  vocabulary.symbols.insert(vocabulary.symbols.begin(), "(unknown)");
  std::vector<uint32_t> number(symbols.size(), 0);
  for (uint32_t i = 0; i < vocabulary.symbols.size(); ++i) {
    vocabulary.entries.push_back({.symbol = i});
    for (std::size_t s = 0; s < symbols.size(); ++s) {
      if (symbols[s] == vocabulary.symbols[i]) number[s] = i;
    }
  }
  std::vector<std::vector<Piece>> pieces;
  for (const auto& sequence : corpus) pieces.push_back(Pieces(sequence, number, options.mode));
  while (vocabulary.entries.size() < options.size) {
    std::map<PairKey, uint64_t> counts;
    for (const auto& p : pieces) {
      for (std::size_t i = 0; i + 1 < p.size(); ++i) {
        if (Mergeable(p[i], p[i + 1], options.mode)) ++counts[KeyOf(p[i], p[i + 1])];
      }
    }
    auto best = counts.end();
    for (auto it = counts.begin(); it != counts.end(); ++it) {
      if (it->second >= options.min_pair_count &&
          (best == counts.end() || it->second > best->second)) {
        best = it;
      }
    }
    if (best == counts.end()) {
      vocabulary.exhausted = true;
      break;
    }
    const auto entry = static_cast<int32_t>(vocabulary.entries.size());
    const auto& [left, right, step] = best->first;
    vocabulary.entries.push_back(
        {.left = left, .right = right, .depth_step = step, .count = best->second});
    for (auto& p : pieces) p = MergeEverywhere(p, best->first, entry, options.mode);
  }
  for (const auto& sequence : corpus) vocabulary.corpus_atoms += sequence.size();
  for (const auto& p : pieces) vocabulary.corpus_tokens += p.size();
  return vocabulary;
}

std::vector<tpe::Token> BruteForceEncode(const tpe::Vocabulary& vocabulary,
                                         const tpe::Sequence& sequence) {
  std::vector<uint32_t> number;
  for (const tpe::Atom& atom : sequence) {
    number.resize(std::max<std::size_t>(number.size(), atom.symbol + 1));
    number[atom.symbol] = atom.symbol < vocabulary.symbols.size() ? atom.symbol : 0;
  }
  auto pieces = Pieces(sequence, number, vocabulary.mode);
  for (std::size_t e = vocabulary.symbols.size(); e < vocabulary.entries.size(); ++e) {
    const tpe::Entry& entry = vocabulary.entries[e];
    pieces = MergeEverywhere(pieces, {entry.left, entry.right, entry.depth_step},
                             static_cast<int32_t>(e), vocabulary.mode);
  }
  std::vector<tpe::Token> tokens;
  for (const Piece& piece : pieces) {
    tokens.push_back({static_cast<uint32_t>(piece.entry), piece.first, piece.count,
                      sequence[piece.first].depth});
  }
  return tokens;
}

}  // namespace teller::testing_support
