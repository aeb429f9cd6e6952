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
  float ratio = 0, typical = 0, lower = 0;
  float contrast = 0;  ///< all as in OperatorRow; NaN where no other rank has it
  float z = 0, typical_z = 0, lower_z = 0, contrast_z = 0;
  uint32_t worst = 0;  ///< index of the NodeScore with the largest excess
};

/// A step's nodes held against the baseline.
struct ScoredStep {
  std::vector<NodeScore> nodes;
  std::vector<NodeId> last_starter;  ///< as in StepReadings
};

/// The arithmetic shared by fitting and localising. Look-ups are arrays by slot, an operator's
/// measure; rows are resolved once for every phase, bucket and instance that comes along.
class Scorer {
 public:
  Scorer(const Baseline& baseline, const StringInterner& symbols, const RunScale& scale);

  ScoredStep ScoreNodes(const reconstruct::StepForest& step);
  std::vector<OperatorScore> ScoreOperators(const reconstruct::StepForest& step,
                                            std::span<const NodeScore> nodes);

  std::size_t SlotOf(int32_t op, Measure measure) const {
    return static_cast<std::size_t>(op) * kMeasureCount + static_cast<std::size_t>(measure);
  }
  std::size_t slots() const { return baseline_.operators.size() * kMeasureCount; }

 private:
  struct Row {
    bool resolved = false;
    float median = 0, spread = 0;
    uint32_t count = 0;
    double exp_median = 0;
  };
  struct Scale {
    RunScale::Row row;
    double exp_shift = 1;
  };
  /// Rows of one phase and batch bucket, by slot and instance.
  using PhaseRows = std::vector<std::vector<Row>>;

  PhaseRows& RowsOf(const reconstruct::StepForest& step);
  const Row& Resolve(PhaseRows& rows, RowKey key);
  const Scale& ScaleOf(int32_t rank, std::size_t slot) const;
  void ScoreNode(NodeScore& score, const Row& row, double material_ns) const;
  void Standardise(OperatorScore& score, double material_ns) const;
  void Contrast(std::vector<OperatorScore>& scores, std::size_t ranks) const;
  void Lower(std::vector<OperatorScore>& scores, std::span<const NodeScore> nodes);

  const Baseline& baseline_;
  OperatorTable operators_;
  std::unordered_map<uint64_t, uint32_t> row_of_;  // exact keys of the baseline
  std::vector<PhaseRows> resolved_;                // by phase and bucket
  std::vector<const OperatorRow*> operator_row_;   // by slot
  std::vector<std::vector<Scale>> scale_;          // by rank, slot
  std::vector<std::vector<float>> residuals_;      // scratch: by OperatorScore
  std::vector<int32_t> index_;                     // scratch: by rank and slot, its OperatorScore
};

/// Rank position of every track.
std::vector<int32_t> RankPositions(const reconstruct::StepForest& step);

}  // namespace teller::localize
