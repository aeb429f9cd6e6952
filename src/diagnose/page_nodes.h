#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/core/ids.h"
#include "src/reconstruct/step_forest.h"

namespace teller::diagnose {

/// Which nodes of a step a page shows, ascending: all where there are at most `limit`, else the
/// longest, with `wanted` and every shown node's ancestors. May exceed `limit` by `wanted` and its
/// ancestors.
std::vector<NodeId> ChoosePageNodes(const reconstruct::StepForest& step,
                                    std::span<const NodeId> wanted, std::size_t limit);

}  // namespace teller::diagnose
