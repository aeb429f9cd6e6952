#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "src/dataset/tokenizer.h"
#include "src/localize/baseline.h"
#include "src/slice/slice.h"
#include "src/tpe/tpe.h"

namespace teller::dataset {

/// The stages from steps.h5 to tokens.h5, each a function from files to a file. None reads a trace;
/// every output names its inputs with their hashes, is written beside and renamed, and is only
/// overwritten with `force`.

struct BaselineStageOptions {
  localize::FitOptions fit;
  int calibration_steps = 300;  ///< of each run's window, evenly chosen
};
/// Fits on the steps of training runs that are negative and outside every stretch.
void FitBaselineStage(std::span<const std::filesystem::path> steps,
                      const std::filesystem::path& output, const BaselineStageOptions& options = {},
                      bool force = false);

struct SlicesStageOptions {
  slice::SliceOptions slice;
  bool calibrate = true;  ///< false: for the row without the calibration window
};
/// Cuts every step of one run that has a forest.
void CutSlicesStage(const std::filesystem::path& steps, const std::filesystem::path& baseline,
                    const std::filesystem::path& output, const SlicesStageOptions& options = {},
                    bool force = false);

/// Trains on training runs, labels unseen, without barriers: on the slices of slices.h5 files, on
/// the whole forests of steps.h5 files.
void TrainVocabularyStage(std::span<const std::filesystem::path> corpus,
                          const std::filesystem::path& output,
                          const tpe::TrainOptions& options = {}, bool force = false);

struct TokensStageOptions {
  Barriers barriers = Barriers::kNone;
  uint64_t seed = 1;  ///< of random barriers
};
/// Encodes every step that has a slice. The localiser's columns: score, -log10 of its p-value,
/// wait_z, undecided, and of each of the K suspects z, log of observed over expected time, and the
/// excess as a share of the step.
void EncodeTokensStage(const std::filesystem::path& steps, const std::filesystem::path& slices,
                       const std::filesystem::path& vocabulary, const std::filesystem::path& output,
                       const TokensStageOptions& options = {}, bool force = false);

}  // namespace teller::dataset
