#include "src/core/error.h"
#include "src/tpe/tpe.h"

namespace teller::tpe {

std::vector<int32_t> ParentsOf(std::span<const Atom> sequence) {
  std::vector<int32_t> parents(sequence.size(), -1);
  std::vector<int32_t> open;  // the path from a root to the node at hand
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    while (!open.empty() &&
           sequence[static_cast<std::size_t>(open.back())].depth >= sequence[i].depth) {
      open.pop_back();
    }
    if (!open.empty()) parents[i] = open.back();
    open.push_back(static_cast<int32_t>(i));
  }
  return parents;
}

std::vector<TokenParent> ParentsOfTokens(std::span<const Token> tokens,
                                         std::span<const int32_t> parents) {
  std::vector<uint32_t> owner(parents.size(), 0);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    TELLER_CHECK(tokens[t].first + tokens[t].count <= parents.size());
    for (uint32_t i = 0; i < tokens[t].count; ++i) {
      owner[tokens[t].first + i] = static_cast<uint32_t>(t);
    }
  }
  std::vector<TokenParent> result;
  for (const Token& token : tokens) {
    const int32_t parent = parents[token.first];
    if (parent < 0) {
      result.push_back({});
      continue;
    }
    const uint32_t of = owner[static_cast<std::size_t>(parent)];
    result.push_back({static_cast<int32_t>(of), static_cast<uint32_t>(parent) - tokens[of].first});
  }
  return result;
}

std::vector<int64_t> SumByToken(std::span<const Token> tokens, std::span<const int64_t> channel) {
  std::vector<int64_t> sums;
  for (const Token& token : tokens) {
    TELLER_CHECK(token.first + token.count <= channel.size());
    int64_t sum = 0;
    for (const int64_t value : channel.subspan(token.first, token.count)) sum += value;
    sums.push_back(sum);
  }
  return sums;
}

Sequence PublishedAtoms(std::span<const Atom> nodes, std::span<const uint8_t> tags,
                        uint32_t first_tag) {
  TELLER_CHECK(nodes.size() == tags.size());
  Sequence atoms;
  atoms.reserve(nodes.size() * 2);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    atoms.push_back({first_tag + tags[i], nodes[i].depth, nodes[i].barrier});
    atoms.push_back(nodes[i]);
  }
  return atoms;
}

}  // namespace teller::tpe
