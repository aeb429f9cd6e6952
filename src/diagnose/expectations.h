#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "src/localize/readings.h"
#include "src/localize/robust.h"
#include "src/reconstruct/step_forest.h"

namespace teller::diagnose {

/// What a reading of a trace is held against: others of its kind in the same trace.
struct Expectation {
  int64_t median_ns = 0;
  float spread = 0;         ///< of log(ns + 1000)
  uint32_t samples = 0;     ///< the reading itself among them
  bool same_place = false;  ///< they stand at the same place of other ranks' or steps' forests
  /// The least at the same place; none where the reading is alone there. What is far above it
  /// differs by more than structure.
  std::optional<int64_t> least_at_place_ns;
};

/// Medians of a trace's own times: by operator and place in the step over ranks and steps where
/// there are at least three, else by operator anywhere where there are at least twelve; always of
/// steps of one shape (phase, batch bucket, magnitude of prompt tokens). A place is the number of
/// the instance on its track; transfers are told apart by bytes instead.
class Expectations {
 public:
  /// Adds one step's readings.
  void Add(const reconstruct::StepForest& step, std::span<const localize::Reading> readings);
  /// Computes the medians; nothing may be added afterwards. O(readings).
  void Seal();
  /// None where too few are of its kind.
  std::optional<Expectation> Of(const reconstruct::StepForest& step,
                                const localize::Reading& reading) const;

 private:
  struct Samples {
    std::vector<float> log_times;
    localize::RobustStat stat;
    float least = 0;
  };
  using Shape = std::tuple<reconstruct::Phase, int32_t, int>;

  static Shape ShapeOf(const reconstruct::StepForest& step);
  /// What stands in the keys for a step's shape; shapes never added share one.
  uint64_t ShapeNumber(const reconstruct::StepForest& step) const;

  std::map<Shape, uint64_t> shapes_;
  std::unordered_map<uint64_t, Samples> by_place_, by_operator_;
};

}  // namespace teller::diagnose
