#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/dataset/tokens_file.h"

namespace teller::testing_support {

/// Synthetic encoded runs that look like an engine's: every rank has `tokens_per_rank` tokens a
/// step whose times scatter by 10 % around their entry's usual time, and a positive step makes one
/// entry on one rank slower.
struct TokensOptions {
  uint64_t seed = 1;
  std::string run_id = "run0";
  int steps = 200;
  int calibration_steps = 20;  ///< at the run's begin
  int ranks = 2;
  int tokens_per_rank = 24;
  uint32_t vocabulary = 40;
  double run_factor = 1.0;      ///< all times of the run
  double slowdown = 4.0;        ///< of the faulty token
  double positive_share = 0.4;  ///< of the steps after calibration
  std::vector<std::string> kinds = {"collective_delay", "operator_slowdown", "process_pause"};
};

/// Kind k slows vocabulary entry 5 + k; the last kind, if it is 'process_pause', has no operator:
/// it adds host time to all tokens of its rank.
dataset::TokensFile MakeTokens(const TokensOptions& options);

/// Exchanges the labels of steps at random within the run, so that they carry nothing.
void PermuteLabels(dataset::TokensFile& run, uint64_t seed);

}  // namespace teller::testing_support
