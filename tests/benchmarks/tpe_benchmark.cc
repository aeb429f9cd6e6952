#include <benchmark/benchmark.h>

#include "src/core/random.h"
#include "src/tpe/tpe.h"
#include "tests/support/sequence_generator.h"

namespace teller::tpe {
namespace {

std::vector<Sequence> Corpus(std::size_t atoms, uint64_t seed) {
  Random random(seed);
  return testing_support::EngineSequences(random, atoms);
}

std::size_t AtomsOf(const std::vector<Sequence>& corpus) {
  std::size_t atoms = 0;
  for (const Sequence& sequence : corpus) atoms += sequence.size();
  return atoms;
}

/// Encodes sequences that the vocabulary was not trained on, all distinct; the cache starts empty.
/// Items are atoms.
void BM_TpeEncode(benchmark::State& state) {
  const auto symbols = testing_support::SymbolNames(62);
  const Vocabulary vocabulary =
      Train(Corpus(200'000, 1), symbols, {.size = static_cast<std::size_t>(state.range(0))});
  auto corpus = Corpus(1 << 20, 2);
  for (Sequence& sequence : corpus) {
    for (Atom& atom : sequence) ++atom.symbol;  // every symbol occurs, so numbers move by one
  }
  std::size_t tokens = 0;
  for (auto _ : state) {
    Encoder encoder(vocabulary);
    tokens = 0;
    for (const Sequence& sequence : corpus) tokens += encoder.Encode(sequence).size();
    benchmark::DoNotOptimize(tokens);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * AtomsOf(corpus)));
  state.counters["compression"] =
      1 - static_cast<double>(tokens) / static_cast<double>(AtomsOf(corpus));
}
BENCHMARK(BM_TpeEncode)->Arg(128)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

void BM_TpeTrain(benchmark::State& state) {
  const auto symbols = testing_support::SymbolNames(62);
  const auto corpus = Corpus(static_cast<std::size_t>(state.range(0)), 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Train(corpus, symbols, {.size = 1024}));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * AtomsOf(corpus)));
}
BENCHMARK(BM_TpeTrain)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace teller::tpe
