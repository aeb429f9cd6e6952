#include "src/dataset/token_text.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace teller::dataset {
namespace {

using tpe::ExpandedAtom;

/// Nodes [begin, end), all deeper than `depth` - 1, as siblings at `depth` with their subtrees.
class SiblingText {
 public:
  SiblingText(const tpe::Vocabulary& vocabulary, const std::vector<ExpandedAtom>& atoms)
      : vocabulary_(vocabulary), atoms_(atoms) {}

  std::string Write(std::size_t begin, std::size_t end) const {
    std::vector<std::pair<std::string, int>> siblings;  // text, how often in a row
    for (std::size_t at = begin; at < end;) {
      std::size_t next = at + 1;
      while (next < end && atoms_[next].depth > atoms_[at].depth) ++next;
      std::string text = vocabulary_.symbols[atoms_[at].symbol];
      if (next > at + 1) text += "(" + Write(at + 1, next) + ")";
      // A later sibling that is shallower climbs out of the fragment's first node's parent.
      if (at > begin) text.insert(0, Climb(atoms_[begin].depth - atoms_[at].depth));
      if (!siblings.empty() && siblings.back().first == text) {
        ++siblings.back().second;
      } else {
        siblings.emplace_back(std::move(text), 1);
      }
      at = next;
    }
    std::string joined;
    for (const auto& [text, count] : siblings) {
      if (!joined.empty()) joined += " ";
      joined += count > 1 ? text + "*" + std::to_string(count) : text;
    }
    return joined;
  }

 private:
  static std::string Climb(int32_t levels) {
    return std::string(static_cast<std::size_t>(std::max(0, levels)), '^');
  }
  const tpe::Vocabulary& vocabulary_;
  const std::vector<ExpandedAtom>& atoms_;
};

}  // namespace

std::string TokenText(const tpe::Vocabulary& vocabulary, uint32_t entry) {
  const std::vector<ExpandedAtom> atoms = tpe::Expand(vocabulary, entry);
  return SiblingText(vocabulary, atoms).Write(0, atoms.size());
}

std::string TokenTree(const tpe::Vocabulary& vocabulary, uint32_t entry) {
  const std::vector<ExpandedAtom> atoms = tpe::Expand(vocabulary, entry);
  int32_t top = 0;
  for (const ExpandedAtom& atom : atoms) top = std::min(top, atom.depth);
  std::string text;
  for (const ExpandedAtom& atom : atoms) {
    text += std::string(static_cast<std::size_t>(atom.depth - top) * 2, ' ') +
            vocabulary.symbols[atom.symbol] + "\n";
  }
  return text;
}

}  // namespace teller::dataset
