#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "src/experiment/scored_step.h"

namespace teller::experiment {

/// How well a method says where a fault sits and what it is (docs/protocol.md, section 4).
/// Undefined values are NaN.

/// End to end over all given steps: a step names an operator when its score reaches `threshold`,
/// and a positive step whose kind has an operator should name it.
struct OperatorScores {
  double macro_f1 = 0;          ///< mean F1 over the union of true and named symbols, absent = 0
  double macro_f1_support = 0;  ///< the same over symbols that are true somewhere
  double micro_f1 = 0;
  int classes = 0;  ///< size of the union
};
/// Steps are weighted so that positives make up `prior`.
OperatorScores ScoreOperators(std::span<const ScoredStep* const> steps, double threshold,
                              double prior);

/// Share of positives with a known operator whose (rank, symbol) stands among the first `k`
/// guesses, flagged or not.
double OperatorTopK(std::span<const ScoredStep* const> steps, std::size_t k);

/// Share of positives with a known culprit rank whose rank is named; beside it what guessing gives.
double RankTop1(std::span<const ScoredStep* const> steps);
double RankChance(std::span<const ScoredStep* const> steps);

/// How often each true kind was given each answer, over positives.
using Confusion = std::map<std::pair<std::string, std::string>, int64_t>;
Confusion KindConfusion(std::span<const ScoredStep* const> steps);
/// Mean F1 over the union of true and answered kinds but 'unknown'; NaN where the method gives no
/// kind.
double KindMacroF1(const Confusion& confusion);
double KindAccuracy(const Confusion& confusion);
/// The same confusion with kinds replaced by their families.
Confusion ByFamily(const Confusion& confusion,
                   const std::map<std::string, std::string>& family_of_kind);

/// Share of the negatives inside placebo stretches, and of those outside any stretch, that are
/// flagged.
struct AlarmRates {
  double placebo = 0;
  double healthy = 0;
  double error = 0;  ///< standard error of their difference; steps of one stretch count as one
  int64_t placebo_steps = 0;
  int64_t healthy_steps = 0;
};
AlarmRates ScoreAlarms(std::span<const ScoredStep* const> steps, double threshold);

}  // namespace teller::experiment
