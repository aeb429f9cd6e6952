#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/experiment/data_set.h"
#include "src/experiment/split.h"
#include "src/model/model_config.h"
#include "src/slice/slice.h"

namespace teller::experiment {

/// What the load generator does while a run is recorded.
struct LoadConfig {
  int concurrency = 4;                 ///< closed loop
  std::vector<std::string> arguments;  ///< further options of teller-load
};

/// A fault of the engine's configuration: `restarts` runs of the campaign have it from begin to
/// end.
struct ConfigurationFault {
  std::string kind;
  int32_t level = 3;
  std::map<std::string, double> magnitude;  ///< what is configured, for the record
  config::Node workload;                    ///< the campaign's, but for that
};

/// The runs to record (docs/protocol.md, section 2).
struct CampaignConfig {
  int runs = 12;
  uint64_t seed = 1;
  double clock_offset_share =
      1.0 / 3;                 ///< of the runs have their nodes' monotonic clocks set apart
  double clock_offset_s = 30;  ///< by at most so much
  std::string level = "full";  ///< of collection
  LoadConfig load;
  config::Node workload;  ///< read by src/workload/launch
  config::Node faults;    ///< read by fault_injection
  std::vector<ConfigurationFault> configuration;
  int restarts = 4;  ///< of each configuration fault, and as many healthy ones with the same load
};

/// One vocabulary of the sweep: by its number of entries, or by the compression it reaches on the
/// training runs (docs/protocol.md, section 5).
struct VocabularyConfig {
  std::string mode = "structural";
  int size = 256;  ///< entries at most
  double cut = 0;  ///< above 0: merges until 1 - tokens / nodes is no less

  bool operator==(const VocabularyConfig&) const = default;
  std::string Name() const;  ///< 'structural 256', 'structural cut 0.84'
};

/// One row of E3: a vocabulary and what the model sees.
struct SweepRow {
  VocabularyConfig vocabulary;
  std::string inputs;  ///< 'tokens' or 'full'
};

/// experiments/NAME.yaml (docs/schema/experiment.md).
struct ExperimentConfig {
  std::string name;
  std::string question;
  std::optional<CampaignConfig> campaign;
  std::vector<std::filesystem::path> steps;  ///< steps.h5 files instead of a campaign
  std::optional<PublishedSet> published;     ///< a data set instead of either; it fixes the split
  bool faults_only = false;  ///< no vocabulary: the campaign is made for the fault tables alone
  SplitSizes split;
  uint64_t split_seed = 1;
  slice::SliceOptions slice;
  VocabularyConfig main;        ///< of E0, E1 and E2
  std::vector<SweepRow> sweep;  ///< E3
  std::vector<int64_t> seeds = {1, 2};
  model::ModelConfig model;  ///< docs/schema/model_request.md
  std::string canonical;     ///< of the whole file, for its hash

  /// Rows of the sweep and the main one, each vocabulary once, in order.
  std::vector<VocabularyConfig> Vocabularies() const;
};

/// Reads an experiment. `scale` names a mapping under `scales:` whose keys are laid over the file;
/// empty: none. Throws ConfigError with file, line and column.
ExperimentConfig LoadExperiment(const std::filesystem::path& path,
                                std::span<const std::string> overrides = {},
                                const std::string& scale = {});

}  // namespace teller::experiment
