#include "src/experiment/headline_metrics.h"

#include "src/experiment/diagnosis_metrics.h"
#include "src/experiment/evaluation.h"

namespace teller::experiment {
namespace {
using dataset::View;
using Json = nlohmann::ordered_json;

BinaryScores HeadlineScores(const SeedResult& seed, const StepRefs& steps) {
  return ScoresAtPrior(RatesAt(ScoreSamples(steps), seed.ThresholdAt(kHeadlinePrior)),
                       kHeadlinePrior);
}

double NaturalEce(const SeedResult&, const StepRefs& steps) {
  const std::vector<Sample> samples = ProbabilitySamples(steps);
  return ExpectedCalibrationError(samples, NaturalPrior(samples));
}

OperatorScores HeadlineOperators(const SeedResult& seed, const StepRefs& steps) {
  return ScoreOperators(steps, seed.ThresholdAt(kHeadlinePrior), kHeadlinePrior);
}

}  // namespace

Metric PrAuc(double prior) {
  return [prior](const SeedResult&, const StepRefs& steps) {
    return AveragePrecision(ScoreSamples(steps), prior);
  };
}

Metric TopK(std::size_t k) {
  return [k](const SeedResult&, const StepRefs& steps) { return OperatorTopK(steps, k); };
}

const std::vector<NamedMetric>& HeadlineMetrics() {
  static const std::vector<NamedMetric> metrics = {
      {"accuracy",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).accuracy; }},
      {"precision",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).precision; }},
      {"recall",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).recall; }},
      {"f1", [](const SeedResult& s, const StepRefs& x) { return HeadlineScores(s, x).f1; }},
      {"pr_auc", PrAuc(kHeadlinePrior)},
      {"operator_macro_f1",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineOperators(s, x).macro_f1; }},
      {"operator_micro_f1",
       [](const SeedResult& s, const StepRefs& x) { return HeadlineOperators(s, x).micro_f1; }},
      {"operator_top1", TopK(1)},
      {"operator_top3", TopK(3)},
      {"operator_top5", TopK(5)},
      {"rank_top1", [](const SeedResult&, const StepRefs& x) { return RankTop1(x); }},
      {"kind_macro_f1",
       [](const SeedResult&, const StepRefs& x) { return KindMacroF1(KindConfusion(x)); }},
      {"ece", NaturalEce},
  };
  return metrics;
}

std::string ViewName(View view) {
  return view == View::kNone ? "combined" : view == View::kHorizontal ? "horizontal" : "vertical";
}

Json Row(std::initializer_list<std::pair<const char*, Json>> entries, const Json& more) {
  Json row = Json::object();
  for (const auto& [key, value] : entries) row[key] = value;
  if (more.is_object()) row.update(more);
  return row;
}

}  // namespace teller::experiment
