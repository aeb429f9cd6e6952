#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include "src/core/error.h"
#include "src/tpe/tpe.h"

namespace teller::tpe {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr int32_t kBlocked = std::numeric_limits<int32_t>::min();

/// From (left, right, depth step) to the entry that merges them. A slot holds only the entry's
/// number, so that the many misses touch four bytes; one slot in eight is used.
class MergeTable {
 public:
  explicit MergeTable(const Vocabulary& vocabulary) {
    const std::size_t merges = vocabulary.entries.size() - vocabulary.symbols.size();
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(64, merges * 8));
    slots_.assign(size, 0);
    shift_ = 64 - std::countr_zero(size);
    first_ = static_cast<uint32_t>(vocabulary.symbols.size());
    for (std::size_t i = first_; i < vocabulary.entries.size(); ++i) {
      const Entry& entry = vocabulary.entries[i];
      keys_.push_back({static_cast<uint32_t>(entry.left), static_cast<uint32_t>(entry.right),
                       entry.depth_step});
      std::size_t slot = Slot(keys_.back());
      while (slots_[slot] != 0) slot = (slot + 1) & (size - 1);
      slots_[slot] = static_cast<uint32_t>(keys_.size());
    }
  }

  /// The merge's number, counted from 0 in training order; kNone: the pair does not merge.
  uint32_t Find(uint32_t left, uint32_t right, int32_t step) const {
    const Key key{left, right, step};
    std::size_t slot = Slot(key);
    while (true) {
      const uint32_t found = slots_[slot];
      if (found == 0) return kNone;
      if (keys_[found - 1] == key) return found - 1;
      slot = (slot + 1) & (slots_.size() - 1);
    }
  }
  uint32_t Entry0() const { return first_; }
  std::size_t size() const { return keys_.size(); }
  bool IsTwin(uint32_t merge) const { return keys_[merge].left == keys_[merge].right; }

 private:
  struct Key {
    uint32_t left, right;
    int32_t step;
    bool operator==(const Key&) const = default;
  };
  std::size_t Slot(const Key& key) const {
    uint64_t h = (uint64_t{key.left} << 32 | key.right) * 0x9E3779B97F4A7C15u;
    h += static_cast<uint64_t>(static_cast<uint32_t>(key.step)) * 0xC2B2AE3D27D4EB4Fu;
    return static_cast<std::size_t>((h ^ (h >> 29)) * 0x9E3779B97F4A7C15u >> shift_);
  }
  std::vector<uint32_t> slots_;  // 1 + merge, 0: empty
  std::vector<Key> keys_;
  int shift_ = 58;
  uint32_t first_ = 0;
};

/// Merges waiting to be done, by number of the merge. A merge only creates pairs with larger
/// numbers, so one walk over the buckets from small to large meets everything.
class MergeQueue {
 public:
  explicit MergeQueue(std::size_t merges) : head_(merges, kNone), occupied_(merges / 64 + 1, 0) {}

  void Push(uint32_t merge, uint32_t position) {
    items_.push_back({position, head_[merge]});
    head_[merge] = static_cast<uint32_t>(items_.size() - 1);
    occupied_[merge / 64] |= uint64_t{1} << (merge % 64);
  }
  /// The smallest waiting merge from word `word` on, or kNone.
  uint32_t Next(std::size_t& word) const {
    while (word < occupied_.size() && occupied_[word] == 0) ++word;
    if (word == occupied_.size()) return kNone;
    return static_cast<uint32_t>(word * 64 +
                                 static_cast<std::size_t>(std::countr_zero(occupied_[word])));
  }
  /// Moves all positions that wait for `merge` into `positions`.
  void Take(uint32_t merge, std::vector<uint32_t>& positions) {
    positions.clear();
    for (uint32_t item = head_[merge]; item != kNone; item = items_[item].next) {
      positions.push_back(items_[item].position);
    }
    head_[merge] = kNone;
    occupied_[merge / 64] &= ~(uint64_t{1} << (merge % 64));
  }
  void Clear() { items_.clear(); }

 private:
  struct Item {
    uint32_t position, next;
  };
  std::vector<uint32_t> head_;
  std::vector<uint64_t> occupied_;
  std::vector<Item> items_;
};

uint64_t HashAtoms(std::span<const Atom> sequence) {
  uint64_t h = sequence.size() + 1;
  for (const Atom& atom : sequence) {
    h = (h ^ (uint64_t{atom.symbol} << 17 | uint64_t{atom.depth} << 1 | (atom.barrier ? 1 : 0))) *
        0x9E3779B97F4A7C15u;
    h ^= h >> 32;
  }
  return h;
}

/// Whole sequences already encoded. Gives up where they do not repeat, and stops growing at a
/// bound.
class SequenceCache {
 public:
  bool Open() const { return looked_up_ < kTrial || hits_ * 16 > looked_up_; }

  const std::vector<Token>* Find(uint64_t hash, std::span<const Atom> sequence) {
    ++looked_up_;
    const auto found = known_.find(hash);
    if (found == known_.end() || !std::ranges::equal(found->second.sequence, sequence)) {
      return nullptr;
    }
    ++hits_;
    return &found->second.tokens;
  }
  void Keep(uint64_t hash, std::span<const Atom> sequence, const std::vector<Token>& tokens) {
    if (kept_atoms_ + sequence.size() > kMaxAtoms) return;
    kept_atoms_ += sequence.size();
    known_.try_emplace(hash, Known{{sequence.begin(), sequence.end()}, tokens});
  }

 private:
  static constexpr std::size_t kTrial = 1024;  // look-ups before giving up is allowed
  static constexpr std::size_t kMaxAtoms = std::size_t{4} << 20;  // 32 MiB of atoms
  struct Known {
    Sequence sequence;
    std::vector<Token> tokens;
  };
  std::unordered_map<uint64_t, Known> known_;
  std::size_t looked_up_ = 0, hits_ = 0, kept_atoms_ = 0;
};

}  // namespace

struct Encoder::State {
  explicit State(const Vocabulary& vocabulary)
      : table(vocabulary), queue(table.size()), mode(vocabulary.mode) {}

  void Lay(std::span<const Atom> sequence) {
    const std::size_t atoms = sequence.size();
    id.resize(atoms);
    step.resize(atoms + 1);
    next.resize(atoms);
    previous.resize(atoms + 1);
    merge_at.assign(atoms, kNone);
    for (std::size_t i = 0; i < atoms; ++i) {
      id[i] = sequence[i].symbol < table.Entry0() ? sequence[i].symbol : 0;
      next[i] = static_cast<uint32_t>(i + 1);
      previous[i] = static_cast<uint32_t>(i) - 1;
    }
    step[0] = step[atoms] = kBlocked;
    for (std::size_t i = 1; i < atoms; ++i) step[i] = StepBetween(sequence[i - 1], sequence[i]);
  }
  int32_t StepBetween(const Atom& left, const Atom& right) const {
    if (left.barrier || right.barrier) return kBlocked;
    return mode == Mode::kAdjacencyPublished ? 0 : int32_t{right.depth} - int32_t{left.depth};
  }

  /// Looks up the pair that starts at `position` and queues its merge.
  void Look(uint32_t position) {
    const uint32_t right = next[position];
    const int32_t between = step[right];
    const uint32_t merge =
        between == kBlocked ? kNone : table.Find(id[position], id[right], between);
    merge_at[position] = merge;
    if (merge != kNone) queue.Push(merge, position);
  }

  void MergeAll() {
    queue.Clear();
    for (auto i = static_cast<uint32_t>(id.size()); i-- > 0;) Look(i);
    std::size_t word = 0;
    for (uint32_t merge; (merge = queue.Next(word)) != kNone;) {
      queue.Take(merge, waiting);
      // Only equal neighbours can overlap; of those the leftmost merge first.
      if (table.IsTwin(merge)) std::sort(waiting.begin(), waiting.end());
      for (const uint32_t position : waiting) {
        if (merge_at[position] == merge) MergeAt(position, merge);
      }
    }
  }

  void MergeAt(uint32_t position, uint32_t merge) {
    const uint32_t right = next[position];
    const uint32_t after = next[right];
    id[position] = table.Entry0() + merge;
    merge_at[right] = kNone;
    next[position] = after;
    previous[after] = position;
    Look(position);
    if (step[position] != kBlocked) Look(previous[position]);
  }

  std::vector<Token> Collect(std::span<const Atom> sequence) const {
    std::vector<Token> tokens;
    for (uint32_t i = 0; i < id.size(); i = next[i]) {
      tokens.push_back({id[i], i, next[i] - i, sequence[i].depth});
    }
    return tokens;
  }

  MergeTable table;
  MergeQueue queue;
  SequenceCache cache;
  Mode mode;
  // By atom of the sequence at hand; a token lives at its first atom. `step` and `previous` have
  // one more.
  std::vector<uint32_t> id, next, previous, merge_at, waiting;
  std::vector<int32_t> step;
};

Encoder::Encoder(const Vocabulary& vocabulary) : state_(std::make_unique<State>(vocabulary)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

std::vector<Token> Encoder::Encode(std::span<const Atom> sequence) {
  TELLER_CHECK(sequence.size() < kNone);
  const bool cached = state_->cache.Open();
  const uint64_t hash = cached ? HashAtoms(sequence) : 0;
  if (cached) {
    if (const std::vector<Token>* known = state_->cache.Find(hash, sequence)) return *known;
  }
  state_->Lay(sequence);
  state_->MergeAll();
  std::vector<Token> tokens = state_->Collect(sequence);
  if (cached) state_->cache.Keep(hash, sequence, tokens);
  return tokens;
}

}  // namespace teller::tpe
