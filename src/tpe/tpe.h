#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/ids.h"

namespace teller::tpe {

/// Trace Pair Encoding (docs/design.md, section 7).
enum class Mode : uint8_t {
  kStructural =
      0,  ///< merges only if the first node of right is not shallower than the first node of left
  kAdjacency = 1,           ///< the same without that condition
  kAdjacencyPublished = 2,  ///< the published algorithm: depths play no part, any adjacent pair
                            ///< merges. Its sequences hold two atoms a node (see PublishedAtoms)
};
/// 'structural', 'adjacency', 'adjacency-published'.
std::string_view ModeName(Mode mode);
/// Throws ConfigError for another name.
Mode ParseMode(std::string_view name);

/// One node of a sequence in pre-order.
struct Atom {
  uint32_t symbol = 0;  ///< dense id in the corpus's symbol list
  uint16_t depth = 0;
  bool barrier = false;  ///< with `preserve`: never merged with a neighbour

  bool operator==(const Atom&) const = default;
};

/// One (rank, thread or stream, step). No merge crosses its border.
using Sequence = std::vector<Atom>;

/// One token of an encoded sequence: which vocabulary entry, where its atoms lie.
struct Token {
  uint32_t id = 0;
  uint32_t first = 0;  ///< index of its first atom in the sequence
  uint32_t count = 0;  ///< atoms covered
  uint16_t depth = 0;  ///< of its first atom

  bool operator==(const Token&) const = default;
};

/// A vocabulary entry: an atom symbol, or a merge of two earlier entries with the depth step
/// between them.
struct Entry {
  int32_t left = -1, right = -1;  ///< entries; -1: an atom
  int32_t depth_step =
      0;  ///< from the last node of left to the first of right; 0 in the published mode
  uint32_t symbol = 0;  ///< atoms only
  uint64_t count = 0;   ///< of the pair when it was merged, in the training corpus

  bool operator==(const Entry&) const = default;
};

/// Entries: first the unknown symbol (id 0), then the corpus's symbols in text order, so that an
/// atom's entry has the number of its symbol; then merges in training order. Nothing here depends
/// on the order of the corpus or the number of threads: of pairs with equal counts the one with the
/// smaller (left, right, depth step) comes first, and atoms are numbered by symbol text.
struct Vocabulary {
  Mode mode = Mode::kStructural;
  std::vector<std::string> symbols;  ///< by Entry::symbol, sorted; symbols[0] is '(unknown)'
  std::vector<Entry> entries;
  bool exhausted = false;  ///< no pair with the minimal count was left before `size` was reached
  uint64_t corpus_hash = 0;
  uint64_t corpus_atoms = 0;   ///< of the training corpus, repeated sequences counted as often
  uint64_t corpus_tokens = 0;  ///< the same, encoded with all entries

  bool operator==(const Vocabulary&) const = default;
};

inline constexpr std::string_view kUnknownSymbol = "(unknown)";

struct TrainOptions {
  Mode mode = Mode::kStructural;
  std::size_t size = 256;  ///< wanted number of entries, symbols included
  uint64_t min_pair_count = 2;
  double target_cut = 0;  ///< above 0: stops, before `size`, once 1 - tokens / nodes of the
                          ///< training corpus is no less (protocol, section 5); nodes are atoms, in
                          ///< the published mode half of them
};

/// Trains on sequences over `symbols` (any order; Atom::symbol indexes it). Identical sequences are
/// counted once, with their weight. Symbols that no sequence uses are left out. Fewer entries than
/// `size` come out where pairs run out
/// (`exhausted`), more where there are more symbols than `size`.
/// Pair counts are kept up to date merge by merge: O(atoms + merges log pairs), about 40 bytes an
/// atom.
/// @throws DataError where an atom's symbol is not in `symbols`, or the distinct sequences hold
/// 2^32 atoms or more
Vocabulary Train(std::span<const Sequence> corpus, std::span<const std::string> symbols,
                 const TrainOptions& options);

/// Throws DataError unless every entry is an atom of its own number or a merge of earlier entries
/// that the mode allows, and no entry expands to more than `max_atoms`. A vocabulary that came from
/// a file goes through this before any use.
void CheckVocabulary(const Vocabulary& vocabulary, std::size_t max_atoms = std::size_t{1} << 20);

/// Encodes sequences whose symbols already are indices into Vocabulary::symbols (0: unknown; beyond
/// the end: unknown). Pairs merge in training order, and of one pair the leftmost first. Whole
/// sequences are cached as long as that pays. Cost: a few table look-ups an atom; the queue of
/// pairs is an array of buckets, because a merge only ever creates pairs that were trained later.
class Encoder {
 public:
  explicit Encoder(const Vocabulary& vocabulary);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  std::vector<Token> Encode(std::span<const Atom> sequence);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The inverse of Encode, from ids and first depths alone: exact symbols, depths and (by ParentsOf)
/// parents in modes `structural` and `adjacency`, whose pairs carry the depth step. In the
/// published mode only the symbols come back; every atom gets the depth of its token's first.
/// Barriers are not encoded.
/// @throws DataError for an id outside the vocabulary, or a depth outside [0, 65535]
Sequence Decode(const Vocabulary& vocabulary, std::span<const Token> tokens);

/// The atoms of one entry, the first at depth 0. Depths of `adjacency` may lie below it.
struct ExpandedAtom {
  uint32_t symbol = 0;
  int32_t depth = 0;

  bool operator==(const ExpandedAtom&) const = default;
};
std::vector<ExpandedAtom> Expand(const Vocabulary& vocabulary, uint32_t entry);

/// Parents of a pre-order depth sequence: index of each node's parent, -1 for roots. A node's
/// parent is the nearest earlier node that is shallower.
std::vector<int32_t> ParentsOf(std::span<const Atom> sequence);

/// Where the parent of a token's first atom lies: which token, and which of its atoms; (-1, 0) for
/// roots.
struct TokenParent {
  int32_t token = -1;
  uint32_t atom = 0;

  bool operator==(const TokenParent&) const = default;
};
/// @param parents  by atom, as ParentsOf gives them
std::vector<TokenParent> ParentsOfTokens(std::span<const Token> tokens,
                                         std::span<const int32_t> parents);

/// Sums of an additive channel over the atoms of each token: the sums of all tokens equal the sum
/// of the channel.
std::vector<int64_t> SumByToken(std::span<const Token> tokens, std::span<const int64_t> channel);

/// The published atoms of a node sequence: for each atom a type tag, then its name, both at the
/// node's depth. Tags are symbols `first_tag + tags[i]`. Atom 2 i + 1 is node i.
Sequence PublishedAtoms(std::span<const Atom> nodes, std::span<const uint8_t> tags,
                        uint32_t first_tag);

}  // namespace teller::tpe
