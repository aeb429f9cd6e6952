#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct TokenizeOptions {
  std::vector<std::string>
      inputs;  ///< one steps.h5; with `train` any number of slices.h5 or steps.h5
  std::string vocabulary;
  bool train = false;
  std::string mode = "structural";
  std::size_t size = 256;
  double cut = 0;
  std::string slices;  ///< empty: whole steps
  std::string output;  ///< tokens.h5; needs slices
  std::string barriers = "none";
  uint64_t seed = 1;
  bool explain = false;
  int64_t step =
      -1;  ///< engine step to explain; -1: the one with the highest localiser score, else the first
  int top = 20;
  bool force = false;
  bool json = false;
};

void AddTokenizeCommand(CLI::App& app);

/// Encodes one run with a vocabulary and prints how far it compresses; or trains a vocabulary.
void RunTokenize(const TokenizeOptions& options);

}  // namespace teller::cli
