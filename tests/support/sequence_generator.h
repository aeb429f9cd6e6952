#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/core/random.h"
#include "src/tpe/tpe.h"

namespace teller::testing_support {

struct SequenceOptions {
  std::size_t min_atoms = 0, max_atoms = 60;
  uint32_t symbols = 5;  ///< few symbols repeat, many do not
  double barriers = 0;   ///< share of atoms
  bool pruned = false;  ///< depths may jump by more than one, as in slices; the first need not be 0
};

/// A random pre-order sequence: each node is a child, a sibling or a relative of an ancestor of the
/// one before.
tpe::Sequence RandomSequence(Random& random, const SequenceOptions& options);

/// Sequences like those of a serving engine: the same operators step after step in varying
/// arrangement, so that merges pay and hardly any two sequences are equal. `atoms` in all, about
/// 400 a sequence.
std::vector<tpe::Sequence> EngineSequences(Random& random, std::size_t atoms);

/// 's00', 's01', ...
std::vector<std::string> SymbolNames(uint32_t count);

}  // namespace teller::testing_support
