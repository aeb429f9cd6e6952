#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/localize/baseline.h"
#include "src/localize/localizer.h"
#include "src/localize/readings.h"

namespace teller::localize {

/// Where a symbol of a run, seen in a layer, stands among the baseline's operators; unseen ones
/// share '(any)'.
class OperatorTable {
 public:
  OperatorTable(const Baseline& baseline, const StringInterner& symbols);
  int32_t Find(SymbolId symbol, trace::Layer layer) const {
    return by_symbol_[Index(symbol)][static_cast<std::size_t>(layer)];
  }

 private:
  std::vector<std::array<int32_t, trace::kLayerCount>> by_symbol_;
};

/// One reading held against the baseline, unscaled.
struct NodeScore {
  Reading reading;
  int32_t rank = 0;  ///< position
  int32_t op = 0;
  double expected_ns = 0;
  double cut_ns = 0;   ///< the observed time, cut at three widths above what is expected
  float residual = 0;  ///< of the log-time, the run's shift taken off
  float width = 0;     ///< what the residual is divided by; 0: no row
  float z = 0;         ///< standardised, damped where the excess hardly matters for the step
};

/// All instances of one operator and measure on one rank.
struct OperatorScore {
  int32_t rank = 0;
  int32_t op = 0;
  Measure measure{};
  double observed_ns = 0, expected_ns = 0, cut_ns = 0;
  float ratio = 0, typical = 0,
        contrast = 0;  ///< as in OperatorRow; contrast is NaN where no other rank has it
  float z = 0, typical_z = 0, contrast_z = 0;
  uint32_t worst = 0;  ///< index of the NodeScore with the largest excess
};

/// The arithmetic shared by fitting and localising.
class Scorer {
 public:
  Scorer(const Baseline& baseline, const StringInterner& symbols, const RunScale& scale);

  std::vector<NodeScore> ScoreNodes(const reconstruct::StepForest& step);
  std::vector<OperatorScore> ScoreOperators(const reconstruct::StepForest& step,
                                            std::span<const NodeScore> nodes) const;

 private:
  const RobustStat& StatOf(RowKey key);
  const RunScale::Row* ScaleOf(int32_t rank, int32_t op, Measure measure) const;
  void ScoreNode(NodeScore& score, int32_t phase, int32_t bucket, double material_ns);
  void Standardise(OperatorScore& score, double material_ns) const;
  void Contrast(std::vector<OperatorScore>& scores) const;

  const Baseline& baseline_;
  OperatorTable operators_;
  std::unordered_map<uint64_t, uint32_t> row_of_;    // exact keys of the baseline
  std::unordered_map<uint64_t, uint32_t> resolved_;  // keys asked for, with their fallback
  std::unordered_map<uint64_t, uint32_t> operator_row_of_;
  std::unordered_map<uint64_t, RunScale::Row> scale_;
};

/// Rank position of every track.
std::vector<int32_t> RankPositions(const reconstruct::StepForest& step);

}  // namespace teller::localize
