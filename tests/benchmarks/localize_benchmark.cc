#include <benchmark/benchmark.h>

#include "src/localize/localizer.h"
#include "src/slice/slice.h"
#include "tests/support/forest_generator.h"

namespace teller::localize {
namespace {

/// A healthy run and a baseline fitted on it; `layers` as in the generator.
struct Fitted {
  explicit Fitted(int layers)
      : file(testing_support::GenerateRun({.seed = 3, .steps = 300, .layers = layers})) {
    TrainingRun run{.run = &file.run};
    run.healthy.assign(file.run.steps.size(), 1);
    run.calibration.assign(file.run.steps.size(), 0);
    std::fill_n(run.calibration.begin(), 40, 1);
    baseline = FitBaseline(std::vector<TrainingRun>{run});
    std::vector<const reconstruct::StepForest*> calibration;
    for (int s = 0; s < 40; ++s)
      calibration.push_back(&file.run.steps[static_cast<std::size_t>(s)]);
    scale = Localizer(baseline, file.run.symbols).MeasureScale(calibration);
    for (const auto& step : file.run.steps) nodes += step.nodes.size();
  }
  dataset::StepsFile file;
  Baseline baseline;
  RunScale scale;
  std::size_t nodes = 0;
};

/// Items are nodes; the counter says how much faster than the run lasted.
void Report(benchmark::State& state, const Fitted& fitted) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * fitted.nodes));
  const auto& steps = fitted.file.run.steps;
  const double seconds = 1e-9 * static_cast<double>(steps.back().end_ns - steps.front().begin_ns);
  state.counters["times_real_time"] = benchmark::Counter(
      seconds * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void BM_Localize(benchmark::State& state) {
  const Fitted fitted(static_cast<int>(state.range(0)));
  Localizer localizer(fitted.baseline, fitted.file.run.symbols, fitted.scale);
  for (auto _ : state) {
    for (const auto& step : fitted.file.run.steps) {
      benchmark::DoNotOptimize(localizer.Localize(step));
    }
  }
  Report(state, fitted);
}
BENCHMARK(BM_Localize)->Arg(2)->Arg(24)->Unit(benchmark::kMillisecond);

void BM_CutSlice(benchmark::State& state) {
  const Fitted fitted(static_cast<int>(state.range(0)));
  Localizer localizer(fitted.baseline, fitted.file.run.symbols, fitted.scale);
  std::vector<StepSuspects> suspects;
  for (const auto& step : fitted.file.run.steps) suspects.push_back(localizer.Localize(step));
  for (auto _ : state) {
    for (std::size_t s = 0; s < suspects.size(); ++s) {
      benchmark::DoNotOptimize(slice::CutSlice(fitted.file.run.steps[s], suspects[s], {}));
    }
  }
  Report(state, fitted);
}
BENCHMARK(BM_CutSlice)->Arg(2)->Arg(24)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace teller::localize
