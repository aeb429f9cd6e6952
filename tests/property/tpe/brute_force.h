#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/tpe/tpe.h"

namespace teller::testing_support {

/// Trains by counting every pair of the whole corpus again before each merge. Slow and obvious.
tpe::Vocabulary BruteForceTrain(const std::vector<tpe::Sequence>& corpus,
                                const std::vector<std::string>& symbols,
                                const tpe::TrainOptions& options);

/// Encodes by walking over the sequence once for every merge, in training order.
std::vector<tpe::Token> BruteForceEncode(const tpe::Vocabulary& vocabulary,
                                         const tpe::Sequence& sequence);

}  // namespace teller::testing_support
