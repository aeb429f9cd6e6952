#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/core/ids.h"

namespace teller::tpe {

/// Trace Pair Encoding (docs/design.md, section 7).
enum class Mode : uint8_t {
  kStructural =
      0,  ///< merges only if the first node of right is not shallower than the first node of left
  kAdjacency = 1,  ///< the same without that condition
};

/// One node of a sequence in pre-order.
struct Atom {
  uint32_t symbol = 0;  ///< dense id in the corpus's symbol list
  uint16_t depth = 0;
  bool barrier = false;  ///< with `preserve`: never merged with a neighbour
};

/// One (rank, thread or stream, step). No merge crosses its border.
using Sequence = std::vector<Atom>;

/// One token of an encoded sequence: which vocabulary entry, where its atoms lie.
struct Token {
  uint32_t id = 0;
  uint32_t first = 0;  ///< index of its first atom in the sequence
  uint32_t count = 0;  ///< atoms covered
  uint16_t depth = 0;  ///< of its first atom
};

/// A vocabulary entry: an atom symbol, or a merge of two earlier entries with the depth step
/// between them.
struct Entry {
  int32_t left = -1, right = -1;  ///< entries; -1: an atom
  int32_t depth_step = 0;         ///< from the last node of left to the first of right
  uint32_t symbol = 0;            ///< atoms only
  uint64_t count = 0;             ///< of the pair when it was merged, in the training corpus
};

/// Entries: first the unknown symbol (id 0), then the corpus's symbols in text order, then merges
/// in training order. Nothing here depends on the order of the corpus or the number of threads:
/// ties between pairs go by symbol text.
struct Vocabulary {
  Mode mode = Mode::kStructural;
  std::vector<std::string> symbols;  ///< by Entry::symbol, sorted; symbols[0] is '(unknown)'
  std::vector<Entry> entries;
  bool exhausted = false;  ///< no pair with the minimal count was left before `size` was reached
  uint64_t corpus_hash = 0;
};

struct TrainOptions {
  Mode mode = Mode::kStructural;
  std::size_t size = 256;  ///< wanted number of entries, symbols included
  uint64_t min_pair_count = 2;
};

/// Trains on sequences over `symbols` (any order; Atom::symbol indexes it). Identical sequences are
/// counted once.
Vocabulary Train(std::span<const Sequence> corpus, std::span<const std::string> symbols,
                 const TrainOptions& options);

/// Encodes sequences whose symbols already are indices into Vocabulary::symbols (0: unknown).
/// Caches whole sequences.
class Encoder {
 public:
  explicit Encoder(const Vocabulary& vocabulary);
  ~Encoder();
  std::vector<Token> Encode(std::span<const Atom> sequence);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Exact symbols and depths of a token sequence: the inverse of Encode, from ids and first depths
/// alone.
Sequence Decode(const Vocabulary& vocabulary, std::span<const Token> tokens);

/// Parents of a pre-order depth sequence: index of each node's parent, -1 for roots.
std::vector<int32_t> ParentsOf(std::span<const Atom> sequence);

}  // namespace teller::tpe
