#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "src/dataset/steps_file.h"

namespace teller::interop {

/// steps.h5 made small for publishing (docs/schema/packed_steps.md): forests of chosen steps only,
/// self times and gaps rounded to 1 %, numbers to 9 bits; request ids left out; xz.

/// Rounds a time to the nearest power of 1.01, sign kept.
int64_t RoundTime(int64_t ns);

/// Rounds what a forest stands on, gaps and self times, and rebuilds begins and durations from
/// them. Each gap is taken from the rebuilt end before it, so that errors do not add up: a begin is
/// off by less than 1 % of its own gap.
void RoundForest(reconstruct::StepForest& step);

/// Writes `steps` with the forests of the steps that `keep` marks; others keep label and numbers.
/// Throws ConfigError where `path` exists.
void WritePackedSteps(const std::filesystem::path& path, dataset::StepsFile steps,
                      const std::vector<uint8_t>& keep);

/// Which steps are unpacked: all, or those whose forest is there, which slices, tokens and tables
/// stand on.
enum class Unpack { kAll, kForests };

/// Unpacks into a steps.h5. Throws DataError: missing, foreign, damaged.
void UnpackSteps(const std::filesystem::path& packed, const std::filesystem::path& output,
                 Unpack which = Unpack::kAll);

}  // namespace teller::interop
