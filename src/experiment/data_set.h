#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/dataset/steps_file.h"

namespace teller::experiment {

/// A run of a published data set.
struct PublishedRun {
  std::string file;  ///< in the set's folder, packed (src/interop/packed_steps.h)
  std::string run_id, engine;
  std::string role;  ///< 'train', 'validation', 'test', or the name of a held-out test set
  int64_t steps = 0, forests = 0, positive = 0;
  int64_t bytes = 0;
  std::string hash;  ///< HashFileHex
};

/// A folder with packed runs and manifest.yaml (docs/dataset.md).
struct PublishedSet {
  std::filesystem::path folder;
  std::string name;
  std::vector<PublishedRun> runs;

  /// Runs of the three main roles, in order: what an experiment stands on.
  std::vector<PublishedRun> MainRuns() const;
};

/// Throws ConfigError: no manifest, a run or a key missing, a file of another size.
PublishedSet ReadPublishedSet(const std::filesystem::path& folder);
/// Writes manifest.yaml with the machine, the commit and what `sources` says of where it is from
/// (one line each).
void WriteManifest(const PublishedSet& set, const std::vector<std::string>& sources);

/// How many whole forests are kept; all other steps keep their numbers and labels.
struct ForestBudget {
  int64_t faulty = 0;        ///< in stretches, spread evenly over them
  int64_t healthy = 0;       ///< outside them
  int64_t calibration = 40;  ///< of a run: what its scale is measured on
};

/// Which forests of a run are kept: blocks of kBlockSteps in a row, so that gaps and neighbours are
/// real.
inline constexpr int64_t kForestBlockSteps = 5;
std::vector<uint8_t> ChooseForests(const dataset::StepsFile& run, const ForestBudget& budget);

}  // namespace teller::experiment
