#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/steps_file.h"

namespace teller::testing_support {

/// Where an injected delay's time lies (docs/protocol.md, section 1).
enum class DelayPlace : uint8_t {
  kInside = 0,   ///< inside the records of `symbol` on `rank`
  kBefore = 1,   ///< in the gap before them
  kTransfer = 2  ///< in the transfer of collectives `symbol`: a slow link, no rank to blame
};

/// A delay added to every instance of one operator in steps [first_step, last_step).
struct InjectedDelay {
  int first_step = 0;
  int last_step = 0;
  RankId rank{0};
  std::string symbol = "linear";
  int64_t delay_ns = 200'000;
  DelayPlace place = DelayPlace::kInside;
  int every = 1;    ///< only each n-th instance of the symbol in a step
  int stretch = 0;  ///< id in the labels
  std::string kind = "operator_slowdown";
  std::string family = "kernel";
  int level = 3;
};

struct ForestOptions {
  uint64_t seed = 1;
  std::string run_id = "synthetic";
  int steps = 200;
  int ranks = 2;
  int layers = 2;       ///< transformer layers: about 15 host nodes and 8 device nodes each
  bool device = true;   ///< operators launch onto a stream; false: they run on the host thread
  double noise = 0.08;  ///< standard deviation of log-durations
  double outliers =
      0.002;  ///< share of operators that take up to 20 times as long, as on a shared host
  double run_scale = 1;  ///< all durations of the run; real runs differ by +-30 %
  double drift = 0;      ///< relative growth of all durations from the first to the last step
  int calibration_steps = 40;
  int begin_spread_ns = 200'000;  ///< ranks' steps begin apart by up to this
  std::vector<InjectedDelay> delays;
};

/// One synthetic run whose forests keep every promise of StepForest: pre-order by track, one root a
/// track, self times that add up to the nanosecond, matched collectives that end together, launches
/// joined to kernels. Ranks are coupled: a delay on one makes the others' collectives wait. Labels
/// hold the injected time per rank and the nodes hit. Simulated, and for tests only. The same
/// options give the same run on every machine.
dataset::StepsFile GenerateRun(const ForestOptions& options);

}  // namespace teller::testing_support
