#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace teller::experiment {

/// Which runs train, choose thresholds and test: by run, never by step (docs/protocol.md, section
/// 2).
struct Split {
  uint64_t seed = 0;
  std::vector<std::string> train, validation, test;
};

struct SplitSizes {
  int validation = 2;
  int test = 4;
};

/// What identifies a run's data: its id and a hash of its steps.
struct RunIdentity {
  std::string run_id;
  std::string content;
};

/// Draws the runs of each part; the rest trains. The same runs and seed give the same split,
/// whatever their order. Throws ConfigError where a part would be empty, DataError as CheckSplit
/// does.
Split DrawSplit(const std::vector<RunIdentity>& runs, const SplitSizes& sizes, uint64_t seed);

/// Refuses a split that leaks: a run, or a copy of its data under another name, in two parts; a run
/// that is not there; an empty part. Throws DataError naming the runs.
void CheckSplit(const Split& split, const std::vector<RunIdentity>& runs);

/// splits.json (docs/schema/stage.md). Throws DataError on a foreign file.
void WriteSplit(const std::filesystem::path& path, const Split& split);
Split ReadSplit(const std::filesystem::path& path);

}  // namespace teller::experiment
