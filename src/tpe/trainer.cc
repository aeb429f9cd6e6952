#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/tpe/tpe.h"

namespace teller::tpe {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
/// Depth step across which nothing merges: a sequence's border or a barrier's side.
constexpr int32_t kBlocked = std::numeric_limits<int32_t>::min();

struct PairKey {
  uint32_t left = 0, right = 0;
  int32_t depth_step = 0;

  auto operator<=>(const PairKey&) const = default;
};

uint64_t HashKey(const PairKey& key) {
  uint64_t h = (uint64_t{key.left} << 32 | key.right) * 0x9E3779B97F4A7C15u;
  h ^= (h >> 29) ^
       (static_cast<uint64_t>(static_cast<uint32_t>(key.depth_step)) * 0xC2B2AE3D27D4EB4Fu);
  h *= 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

struct Pair {
  PairKey key;
  uint64_t count = 0;
  std::vector<uint32_t> positions;  // of the left token; may be stale, `pair_at` decides
};

/// Open addressing from pair key to an index into `pairs`.
class PairTable {
 public:
  PairTable() : slots_(1024, kNone) {}

  uint32_t FindOrAdd(const PairKey& key) {
    if (pairs.size() * 2 >= slots_.size()) Grow();
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = HashKey(key) & mask;
    while (slots_[slot] != kNone) {
      if (pairs[slots_[slot]].key == key) return slots_[slot];
      slot = (slot + 1) & mask;
    }
    slots_[slot] = static_cast<uint32_t>(pairs.size());
    pairs.push_back({.key = key});
    return slots_[slot];
  }

  std::vector<Pair> pairs;

 private:
  void Grow() {
    std::vector<uint32_t> larger(slots_.size() * 4, kNone);
    for (uint32_t index = 0; index < pairs.size(); ++index) {
      std::size_t slot = HashKey(pairs[index].key) & (larger.size() - 1);
      while (larger[slot] != kNone) slot = (slot + 1) & (larger.size() - 1);
      larger[slot] = index;
    }
    slots_.swap(larger);
  }
  std::vector<uint32_t> slots_;
};

/// A distinct sequence of the corpus and how often it occurs.
struct Weighted {
  const Sequence* sequence = nullptr;
  uint32_t weight = 0;
};

uint64_t HashSequence(const Sequence& sequence) {
  uint64_t h = sequence.size() * 0x9E3779B97F4A7C15u + 1;
  for (const Atom& atom : sequence) {
    h ^= (uint64_t{atom.symbol} << 17) | (uint64_t{atom.depth} << 1) | (atom.barrier ? 1 : 0);
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

std::vector<Weighted> CountDistinct(std::span<const Sequence> corpus) {
  std::vector<Weighted> distinct;
  std::unordered_multimap<uint64_t, std::size_t> seen;
  for (const Sequence& sequence : corpus) {
    const uint64_t hash = HashSequence(sequence);
    auto [first, last] = seen.equal_range(hash);
    auto found = std::find_if(first, last, [&](const auto& entry) {
      return *distinct[entry.second].sequence == sequence;
    });
    if (found != last) {
      ++distinct[found->second].weight;
      continue;
    }
    seen.emplace(hash, distinct.size());
    distinct.push_back({&sequence, 1});
  }
  return distinct;
}

/// Numbers of the corpus's symbols in the vocabulary: 0 for '(unknown)', then those that occur, in
/// text order.
std::vector<uint32_t> NumberSymbols(std::span<const Weighted> corpus,
                                    std::span<const std::string> symbols,
                                    std::vector<std::string>& numbered) {
  std::vector<bool> used(symbols.size(), false);
  for (const Weighted& weighted : corpus) {
    for (const Atom& atom : *weighted.sequence) {
      if (atom.symbol >= symbols.size()) {
        throw DataError("training a vocabulary: an atom has symbol " + std::to_string(atom.symbol) +
                        ", but there are " + std::to_string(symbols.size()) + " symbols");
      }
      used[atom.symbol] = true;
    }
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (used[i] && symbols[i] != kUnknownSymbol) numbered.push_back(symbols[i]);
  }
  std::sort(numbered.begin(), numbered.end());
  numbered.erase(std::unique(numbered.begin(), numbered.end()), numbered.end());
  numbered.insert(numbered.begin(), std::string(kUnknownSymbol));
  std::vector<uint32_t> number(symbols.size(), 0);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (!used[i] || symbols[i] == kUnknownSymbol) continue;
    const auto found = std::lower_bound(numbered.begin() + 1, numbered.end(), symbols[i]);
    number[i] = static_cast<uint32_t>(found - numbered.begin());
  }
  return number;
}

/// A hash of what was trained on, whatever the order of sequences and the numbers of symbols.
uint64_t HashCorpus(std::span<const Weighted> corpus, std::span<const std::string> symbols) {
  std::vector<uint64_t> by_symbol;
  for (const std::string& symbol : symbols) by_symbol.push_back(Hash64(symbol));
  uint64_t total = 0;
  for (const Weighted& weighted : corpus) {
    uint64_t h = 0x243F6A8885A308D3u;
    for (const Atom& atom : *weighted.sequence) {
      h = (h ^ by_symbol[atom.symbol] ^ (uint64_t{atom.depth} << 1 | (atom.barrier ? 1 : 0))) *
          0x9E3779B97F4A7C15u;
      h ^= h >> 31;
    }
    total += h * (2 * uint64_t{weighted.weight} + 1);
  }
  return total;
}

/// The corpus as linked tokens, with the counts of all adjacent pairs kept exact through every
/// merge.
class Trainer {
 public:
  Trainer(std::span<const Weighted> corpus, std::span<const uint32_t> number,
          const TrainOptions& options, Vocabulary& vocabulary)
      : options_(options), vocabulary_(vocabulary) {
    for (uint32_t symbol = 0; symbol < vocabulary.symbols.size(); ++symbol) {
      vocabulary.entries.push_back({.symbol = symbol});
    }
    rise_.assign(vocabulary.entries.size(), 0);
    Lay(corpus, number);
    CountPairs();
  }

  void Run() {
    while (vocabulary_.entries.size() < options_.size && !ReachedCut()) {
      const uint32_t best = TakeBest();
      if (best == kNone) {
        vocabulary_.exhausted = true;
        return;
      }
      Merge(best);
    }
  }

 private:
  struct Ranked {
    uint64_t count;
    PairKey key;
    uint32_t pair;
    /// Less: comes later. More frequent first, then the smaller key.
    bool operator<(const Ranked& other) const {
      return count != other.count ? count < other.count : other.key < key;
    }
  };

  bool ReachedCut() const {
    if (options_.target_cut <= 0 || vocabulary_.corpus_atoms == 0) return false;
    const double per_node = options_.mode == Mode::kAdjacencyPublished ? 2 : 1;
    const double left = per_node * static_cast<double>(vocabulary_.corpus_tokens) /
                        static_cast<double>(vocabulary_.corpus_atoms);
    return 1 - left >= options_.target_cut;
  }

  void Lay(std::span<const Weighted> corpus, std::span<const uint32_t> number) {
    std::size_t atoms = 0;
    for (const Weighted& weighted : corpus) atoms += weighted.sequence->size();
    if (atoms >= kNone) {
      throw DataError("training a vocabulary: " + std::to_string(atoms) +
                      " atoms in distinct sequences, more than 2^32; train on fewer runs");
    }
    id_.reserve(atoms);
    step_.reserve(atoms);
    weight_.reserve(atoms);
    for (const Weighted& weighted : corpus) {
      const Sequence& sequence = *weighted.sequence;
      for (std::size_t i = 0; i < sequence.size(); ++i) {
        id_.push_back(number[sequence[i].symbol]);
        step_.push_back(i == 0 ? kBlocked : StepBetween(sequence[i - 1], sequence[i]));
        weight_.push_back(weighted.weight);
        vocabulary_.corpus_atoms += weighted.weight;
      }
    }
    vocabulary_.corpus_tokens = vocabulary_.corpus_atoms;
    next_.resize(atoms);
    previous_.resize(atoms);
    for (std::size_t i = 0; i < atoms; ++i) {
      next_[i] = static_cast<uint32_t>(i + 1);
      previous_[i] = i == 0 ? kNone : static_cast<uint32_t>(i - 1);
    }
    pair_at_.assign(atoms, kNone);
  }

  int32_t StepBetween(const Atom& left, const Atom& right) const {
    if (left.barrier || right.barrier) return kBlocked;
    if (options_.mode == Mode::kAdjacencyPublished) return 0;
    return int32_t{right.depth} - int32_t{left.depth};
  }

  /// The pair that starts at `position`, or kNone where the mode forbids it or the sequence ends.
  uint32_t PairAt(uint32_t position) {
    const uint32_t right = next_[position];
    if (right >= id_.size() || step_[right] == kBlocked) return kNone;
    if (id_[position] == 0 || id_[right] == 0) return kNone;  // the unknown symbol stays alone
    const int32_t step = step_[right];
    if (options_.mode == Mode::kStructural && rise_[id_[position]] + step < 0) return kNone;
    return table_.FindOrAdd({id_[position], id_[right], step});
  }

  void AddPair(uint32_t position) {
    const uint32_t pair = PairAt(position);
    pair_at_[position] = pair;
    if (pair == kNone) return;
    table_.pairs[pair].count += weight_[position];
    table_.pairs[pair].positions.push_back(position);
  }
  void RemovePair(uint32_t position) {
    if (pair_at_[position] == kNone) return;
    table_.pairs[pair_at_[position]].count -= weight_[position];
    pair_at_[position] = kNone;
  }

  void CountPairs() {
    for (uint32_t position = 0; position < id_.size(); ++position) AddPair(position);
    RankFrom(0);
  }
  void RankFrom(std::size_t first) {
    for (std::size_t pair = first; pair < table_.pairs.size(); ++pair) {
      Rank(static_cast<uint32_t>(pair));
    }
  }
  void Rank(uint32_t pair) {
    const Pair& ranked = table_.pairs[pair];
    if (ranked.count >= options_.min_pair_count) queue_.push({ranked.count, ranked.key, pair});
  }

  /// The most frequent pair. Counts of old pairs only fall, so a stale rank is put back where it
  /// belongs.
  uint32_t TakeBest() {
    while (!queue_.empty()) {
      const Ranked top = queue_.top();
      queue_.pop();
      if (table_.pairs[top.pair].count == top.count) return top.pair;
      Rank(top.pair);
    }
    return kNone;
  }

  void Merge(uint32_t pair) {
    const PairKey key = table_.pairs[pair].key;
    const auto merged = static_cast<uint32_t>(vocabulary_.entries.size());
    vocabulary_.entries.push_back({.left = static_cast<int32_t>(key.left),
                                   .right = static_cast<int32_t>(key.right),
                                   .depth_step = key.depth_step,
                                   .count = table_.pairs[pair].count});
    rise_.push_back(rise_[key.left] + key.depth_step + rise_[key.right]);
    std::vector<uint32_t> positions = std::move(table_.pairs[pair].positions);
    std::sort(positions.begin(), positions.end());  // of equal neighbours the leftmost merge first
    const std::size_t known = table_.pairs.size();
    for (const uint32_t position : positions) {
      if (pair_at_[position] == pair) MergeAt(position, merged);
    }
    RankFrom(known);
  }

  void MergeAt(uint32_t position, uint32_t merged) {
    const uint32_t right = next_[position];
    const uint32_t after = next_[right];
    const uint32_t before = step_[position] == kBlocked ? kNone : previous_[position];
    RemovePair(position);
    RemovePair(right);
    if (before != kNone) RemovePair(before);
    vocabulary_.corpus_tokens -= weight_[position];
    id_[position] = merged;
    next_[position] = after;
    if (after < id_.size()) previous_[after] = position;
    AddPair(position);
    if (before != kNone) AddPair(before);
  }

  const TrainOptions& options_;
  Vocabulary& vocabulary_;
  std::vector<int32_t> rise_;  // by entry: depth of its last node minus that of its first
  // By atom of all sequences, laid end to end; a token lives at its first atom.
  std::vector<uint32_t> id_, next_, previous_, weight_, pair_at_;
  std::vector<int32_t> step_;  // depth step from the atom before
  PairTable table_;
  std::priority_queue<Ranked> queue_;
};

}  // namespace

Vocabulary Train(std::span<const Sequence> corpus, std::span<const std::string> symbols,
                 const TrainOptions& options) {
  Vocabulary vocabulary;
  vocabulary.mode = options.mode;
  const std::vector<Weighted> distinct = CountDistinct(corpus);
  const std::vector<uint32_t> number = NumberSymbols(distinct, symbols, vocabulary.symbols);
  vocabulary.corpus_hash = HashCorpus(distinct, symbols);
  Trainer(distinct, number, options, vocabulary).Run();
  return vocabulary;
}

}  // namespace teller::tpe
