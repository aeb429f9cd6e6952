#include "src/experiment/diagnosis_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace teller::experiment {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Weighted counts of one class in a one-against-rest question.
struct Counts {
  double hit = 0, missed = 0, wrong = 0;
  double F1() const { return hit == 0 ? 0 : 2 * hit / (2 * hit + missed + wrong); }
};

bool HasOperator(const ScoredStep& step) {
  return IsPositive(step) && !step.label.culprit_symbol.empty();
}

bool IsCulprit(const dataset::OperatorGuess& guess, const dataset::StepLabel& label) {
  return guess.symbol == label.culprit_symbol &&
         (label.culprit_rank == kNoRank || guess.rank == label.culprit_rank);
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : kNaN; }

/// Mean over steps that qualify; NaN where none does.
template <typename Qualifies, typename Value>
double MeanOver(std::span<const ScoredStep* const> steps, Qualifies qualifies, Value value) {
  double sum = 0, count = 0;
  for (const ScoredStep* step : steps) {
    if (!qualifies(*step)) continue;
    sum += value(*step);
    count += 1;
  }
  return Ratio(sum, count);
}

bool NamesOperators(std::span<const ScoredStep* const> steps) {
  return std::any_of(steps.begin(), steps.end(),
                     [](const ScoredStep* step) { return step->names_operators; });
}

std::map<std::string, Counts> CountsByKind(const Confusion& confusion) {
  std::map<std::string, Counts> counts;
  for (const auto& [pair, n] : confusion) {
    const auto& [truth, answer] = pair;
    const double weight = static_cast<double>(n);
    if (truth == answer) {
      counts[truth].hit += weight;
    } else {
      counts[truth].missed += weight;
      if (answer != "unknown") counts[answer].wrong += weight;
    }
  }
  return counts;
}

}  // namespace

OperatorScores ScoreOperators(std::span<const ScoredStep* const> steps, double threshold,
                              double prior) {
  if (!NamesOperators(steps)) return {kNaN, kNaN, kNaN, 0};
  const double natural = NaturalPrior(ScoreSamples(steps));
  if (!(natural > 0 && natural < 1)) return {kNaN, kNaN, kNaN, 0};
  std::map<std::string, Counts> by_symbol;
  std::set<std::string> supported;
  for (const ScoredStep* step : steps) {
    const double weight = IsPositive(*step) ? prior / natural : (1 - prior) / (1 - natural);
    const std::string truth = HasOperator(*step) ? step->label.culprit_symbol : "";
    const bool names = step->score >= threshold && !step->operators.empty();
    const std::string named = names ? step->operators.front().symbol : "";
    if (!truth.empty()) supported.insert(truth);
    if (!truth.empty() && truth == named) {
      by_symbol[truth].hit += weight;
      continue;
    }
    if (!truth.empty()) by_symbol[truth].missed += weight;
    if (!named.empty()) by_symbol[named].wrong += weight;
  }
  OperatorScores scores{0, 0, 0, static_cast<int>(by_symbol.size())};
  Counts all;
  for (const auto& [symbol, counts] : by_symbol) {
    scores.macro_f1 += counts.F1();
    if (supported.contains(symbol)) scores.macro_f1_support += counts.F1();
    all.hit += counts.hit;
    all.missed += counts.missed;
    all.wrong += counts.wrong;
  }
  scores.macro_f1 = Ratio(scores.macro_f1, scores.classes);
  scores.macro_f1_support = Ratio(scores.macro_f1_support, static_cast<double>(supported.size()));
  scores.micro_f1 = supported.empty() ? kNaN : all.F1();
  return scores;
}

double OperatorTopK(std::span<const ScoredStep* const> steps, std::size_t k) {
  if (!NamesOperators(steps)) return kNaN;
  return MeanOver(steps, HasOperator, [k](const ScoredStep& step) {
    const auto end =
        step.operators.begin() + static_cast<std::ptrdiff_t>(std::min(k, step.operators.size()));
    return std::any_of(step.operators.begin(), end,
                       [&](const auto& guess) { return IsCulprit(guess, step.label); })
               ? 1.0
               : 0.0;
  });
}

double RankTop1(std::span<const ScoredStep* const> steps) {
  const bool gives_ranks = std::any_of(steps.begin(), steps.end(), [](const ScoredStep* step) {
    return step->predicted_rank != kNoRank;
  });
  if (!gives_ranks) return kNaN;
  return MeanOver(
      steps,
      [](const ScoredStep& step) { return IsPositive(step) && step.label.culprit_rank != kNoRank; },
      [](const ScoredStep& step) {
        return step.predicted_rank == step.label.culprit_rank ? 1.0 : 0.0;
      });
}

double RankChance(std::span<const ScoredStep* const> steps) {
  return MeanOver(
      steps,
      [](const ScoredStep& step) { return IsPositive(step) && step.label.culprit_rank != kNoRank; },
      [](const ScoredStep& step) { return 1.0 / std::max(1, step.rank_count); });
}

Confusion KindConfusion(std::span<const ScoredStep* const> steps) {
  Confusion confusion;
  for (const ScoredStep* step : steps) {
    if (IsPositive(*step) && !step->predicted_kind.empty())
      ++confusion[{step->label.kind, step->predicted_kind}];
  }
  return confusion;
}

double KindMacroF1(const Confusion& confusion) {
  const std::map<std::string, Counts> counts = CountsByKind(confusion);
  double sum = 0;
  for (const auto& [kind, count] : counts) sum += count.F1();
  return Ratio(sum, static_cast<double>(counts.size()));
}

double KindAccuracy(const Confusion& confusion) {
  double right = 0, all = 0;
  for (const auto& [pair, n] : confusion) {
    all += static_cast<double>(n);
    if (pair.first == pair.second) right += static_cast<double>(n);
  }
  return Ratio(right, all);
}

Confusion ByFamily(const Confusion& confusion,
                   const std::map<std::string, std::string>& family_of_kind) {
  const auto family = [&](const std::string& kind) {
    const auto found = family_of_kind.find(kind);
    return found == family_of_kind.end() ? std::string("unknown") : found->second;
  };
  Confusion families;
  for (const auto& [pair, n] : confusion) families[{family(pair.first), family(pair.second)}] += n;
  return families;
}

namespace {

/// Squared standard error of a mean over blocks (stretches, healthy times): within a block steps go
/// together.
template <typename Qualifies, typename Value>
double SquaredErrorOverBlocks(std::span<const ScoredStep* const> steps, Qualifies qualifies,
                              Value value) {
  std::map<std::pair<std::string, int32_t>, std::pair<double, double>> blocks;  // sum, count
  for (const ScoredStep* step : steps) {
    if (!qualifies(*step)) continue;
    auto& [sum, count] = blocks[{step->run_id, step->block}];
    sum += value(*step);
    count += 1;
  }
  double mean = 0, squares = 0;
  const double n = static_cast<double>(blocks.size());
  if (n < 2) return 0.25;  // one block says nothing of the spread: the largest variance of a rate
  for (const auto& [key, block] : blocks) mean += block.first / block.second / n;
  for (const auto& [key, block] : blocks) squares += std::pow(block.first / block.second - mean, 2);
  return squares / (n - 1) / n;
}

}  // namespace

AlarmRates ScoreAlarms(std::span<const ScoredStep* const> steps, double threshold) {
  const auto flagged = [threshold](const ScoredStep& step) {
    return step.score >= threshold ? 1.0 : 0.0;
  };
  const auto is_placebo = [](const ScoredStep& step) {
    return !IsPositive(step) && (step.label.reasons & dataset::kReasonPlacebo) != 0;
  };
  const auto is_healthy = [](const ScoredStep& step) {
    return !IsPositive(step) && step.label.stretch < 0;
  };
  AlarmRates rates;
  rates.placebo = MeanOver(steps, is_placebo, flagged);
  rates.healthy = MeanOver(steps, is_healthy, flagged);
  rates.error = std::sqrt(SquaredErrorOverBlocks(steps, is_placebo, flagged) +
                          SquaredErrorOverBlocks(steps, is_healthy, flagged));
  rates.placebo_steps =
      std::count_if(steps.begin(), steps.end(), [&](auto* step) { return is_placebo(*step); });
  rates.healthy_steps =
      std::count_if(steps.begin(), steps.end(), [&](auto* step) { return is_healthy(*step); });
  return rates;
}

}  // namespace teller::experiment
