#include <algorithm>
#include <limits>

#include "src/core/error.h"
#include "src/tpe/tpe.h"

namespace teller::tpe {
namespace {

constexpr std::string_view kModeNames[] = {"structural", "adjacency", "adjacency-published"};

[[noreturn]] void FailEntry(std::size_t entry, const std::string& what) {
  throw DataError("vocabulary entry " + std::to_string(entry) + ": " + what);
}

void CheckMerge(const Vocabulary& vocabulary, std::size_t index, std::vector<int64_t>& rise,
                std::vector<std::size_t>& atoms, std::size_t max_atoms) {
  const Entry& entry = vocabulary.entries[index];
  const auto limit = static_cast<int64_t>(index);
  if (entry.left < 0 || entry.left >= limit || entry.right < 0 || entry.right >= limit) {
    FailEntry(index, "expected two earlier entries, found " + std::to_string(entry.left) + " and " +
                         std::to_string(entry.right));
  }
  if (entry.left == 0 || entry.right == 0) FailEntry(index, "merges the unknown symbol");
  const auto left = static_cast<std::size_t>(entry.left);
  const auto right = static_cast<std::size_t>(entry.right);
  if (entry.depth_step < -65535 || entry.depth_step > 65535) {
    FailEntry(index, "depth step " + std::to_string(entry.depth_step) + " is out of range");
  }
  if (vocabulary.mode == Mode::kStructural && rise[left] + entry.depth_step < 0) {
    FailEntry(index, "its right part is shallower than its left, which mode 'structural' forbids");
  }
  if (vocabulary.mode == Mode::kAdjacencyPublished && entry.depth_step != 0) {
    FailEntry(index, "has a depth step, which mode 'adjacency-published' does not know");
  }
  rise.push_back(rise[left] + entry.depth_step + rise[right]);
  atoms.push_back(atoms[left] + atoms[right]);
  if (atoms.back() > max_atoms) {
    FailEntry(index, "stands for more than " + std::to_string(max_atoms) + " atoms");
  }
}

}  // namespace

std::string_view ModeName(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }

Mode ParseMode(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kModeNames); ++i) {
    if (kModeNames[i] == name) return static_cast<Mode>(i);
  }
  throw ConfigError(
      "vocabulary mode: expected structural, adjacency or adjacency-published, found '" +
      std::string(name) + "'");
}

void CheckVocabulary(const Vocabulary& vocabulary, std::size_t max_atoms) {
  const std::size_t symbols = vocabulary.symbols.size();
  if (symbols == 0 || vocabulary.symbols[0] != kUnknownSymbol) {
    throw DataError("vocabulary: symbol 0 is not '(unknown)'");
  }
  if (!std::is_sorted(vocabulary.symbols.begin() + 1, vocabulary.symbols.end(),
                      std::less_equal<>())) {
    throw DataError("vocabulary: symbols are not distinct and in text order");
  }
  if (vocabulary.entries.size() < symbols) {
    throw DataError("vocabulary: fewer entries than symbols");
  }
  std::vector<int64_t> rise(symbols, 0);
  std::vector<std::size_t> atoms(symbols, 1);
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    const Entry& entry = vocabulary.entries[i];
    if (i >= symbols) {
      CheckMerge(vocabulary, i, rise, atoms, max_atoms);
    } else if (entry.left != -1 || entry.right != -1 || entry.symbol != i) {
      FailEntry(i, "expected the atom of symbol " + std::to_string(i));
    }
  }
}

std::vector<ExpandedAtom> Expand(const Vocabulary& vocabulary, uint32_t entry) {
  if (entry >= vocabulary.entries.size()) {
    throw DataError("vocabulary: there is no entry " + std::to_string(entry) + " among " +
                    std::to_string(vocabulary.entries.size()));
  }
  std::vector<ExpandedAtom> atoms;
  struct Pending {
    uint32_t entry;
    int32_t step;  // from the last atom put out to this entry's first
  };
  std::vector<Pending> pending{{entry, 0}};
  while (!pending.empty()) {
    const auto [top, step] = pending.back();
    pending.pop_back();
    const Entry& e = vocabulary.entries[top];
    if (e.left < 0) {
      atoms.push_back({e.symbol, (atoms.empty() ? 0 : atoms.back().depth) + step});
      continue;
    }
    pending.push_back({static_cast<uint32_t>(e.right), e.depth_step});
    pending.push_back({static_cast<uint32_t>(e.left), step});
  }
  return atoms;
}

Sequence Decode(const Vocabulary& vocabulary, std::span<const Token> tokens) {
  Sequence sequence;
  for (const Token& token : tokens) {
    for (const ExpandedAtom& atom : Expand(vocabulary, token.id)) {
      const int32_t depth = int32_t{token.depth} + atom.depth;
      if (depth < 0 || depth > std::numeric_limits<uint16_t>::max()) {
        throw DataError("decoding token " + std::to_string(token.id) + " at depth " +
                        std::to_string(token.depth) + ": an atom lies at depth " +
                        std::to_string(depth));
      }
      sequence.push_back({atom.symbol, static_cast<uint16_t>(depth), false});
    }
  }
  return sequence;
}

}  // namespace teller::tpe
