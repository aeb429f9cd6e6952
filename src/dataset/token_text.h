#pragma once

#include <cstdint>
#include <string>

#include "src/tpe/tpe.h"

namespace teller::dataset {

/// A vocabulary entry on one line: children in brackets after their parent, a run of equal siblings
/// as 'x*3', '^' for each level that a fragment climbs above its first node.
/// For example 'linear(launch) rms_norm(launch)'.
std::string TokenText(const tpe::Vocabulary& vocabulary, uint32_t entry);

/// The same as a little tree, a line a node, two spaces a level.
std::string TokenTree(const tpe::Vocabulary& vocabulary, uint32_t entry);

}  // namespace teller::dataset
