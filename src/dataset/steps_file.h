#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/dataset/labels.h"
#include "src/h5/column.h"
#include "src/reconstruct/step_forest.h"

namespace teller::dataset {

/// One run as steps.h5 keeps it (docs/schema/steps.md): forests, per-step numbers, labels. From
/// here on nothing reads a trace. A step's forest may be absent (published data set): then its
/// nodes, edges and logs are empty, `forest` is 0.
struct StepsFile {
  reconstruct::RunForest run;
  std::vector<StepLabel> labels;          ///< by step
  std::vector<std::string> number_names;  ///< columns of `numbers`
  std::vector<std::vector<float>>
      numbers;                  ///< by step; label-free, free of leaks (protocol, section 3)
  std::vector<uint8_t> forest;  ///< by step: 1 where the forest is present
  bool clock_aligned = false;
  double clock_residual_ns = 0;
  std::string engine;  ///< 'reference', 'vllm'
  std::vector<std::pair<std::string, std::string>>
      inputs;  ///< file name and HashFileHex of what it was made from
  std::vector<std::pair<std::string, int64_t>> stats;  ///< reconstruction counters by reason
};

/// Starts of ranks closer than this are not told apart: the residual of the run's clock alignment.
int64_t ClockErrorNs(const StepsFile& steps);

/// Written beside and renamed; throws ConfigError where it exists and `force` is false.
void WriteSteps(const std::filesystem::path& path, const StepsFile& steps, bool force = false);
/// The same with another storage of the large tables, for whoever packs the file.
void WriteSteps(const std::filesystem::path& path, const StepsFile& steps,
                const h5::ColumnOptions& options);
/// Throws DataError: missing, foreign, truncated, another major version, inconsistent lengths.
StepsFile ReadSteps(const std::filesystem::path& path);

}  // namespace teller::dataset
