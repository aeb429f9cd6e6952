#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <unordered_map>

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

constexpr const char* kSequencesVariable = "TELLER_TPE_SEQUENCES";

/// Sequences of a text file, one a line, atoms as SYMBOL:DEPTH with symbols numbered from 0: the
/// first tenth trains, the rest is encoded. Named by TELLER_TPE_SEQUENCES;
/// scripts/peers/tpe_encode.py runs it beside others.
std::vector<Sequence> ReadSequences(const char* path) {
  std::vector<Sequence> corpus;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Sequence& sequence = corpus.emplace_back();
    std::istringstream atoms(line);
    uint32_t symbol = 0, depth = 0;
    for (char colon; atoms >> symbol >> colon >> depth;) {
      sequence.push_back({symbol, static_cast<uint16_t>(depth), false});
    }
  }
  return corpus;
}

void BM_TpeEncodeFile(benchmark::State& state) {
  const std::vector<Sequence> all = ReadSequences(std::getenv(kSequencesVariable));
  const std::size_t training = all.size() / 10;
  uint32_t most = 0;
  for (const Sequence& sequence : all) {
    for (const Atom& atom : sequence) most = std::max(most, atom.symbol);
  }
  const auto names = testing_support::SymbolNames(most + 1);
  const Vocabulary vocabulary = Train(std::span(all).first(training), names,
                                      {.size = static_cast<std::size_t>(state.range(0))});
  std::unordered_map<std::string, uint32_t> number;
  for (uint32_t i = 0; i < vocabulary.symbols.size(); ++i) number[vocabulary.symbols[i]] = i;
  std::vector<Sequence> corpus(all.begin() + static_cast<std::ptrdiff_t>(training), all.end());
  for (Sequence& sequence : corpus) {
    for (Atom& atom : sequence) atom.symbol = number[names[atom.symbol]];
  }
  std::size_t tokens = 0;
  for (auto _ : state) {
    Encoder encoder(vocabulary);
    tokens = 0;
    for (const Sequence& sequence : corpus) tokens += encoder.Encode(sequence).size();
    benchmark::DoNotOptimize(tokens);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * AtomsOf(corpus)));
  state.counters["tokens"] = static_cast<double>(tokens);
}
/// Only there where the variable names a file.
const bool kFileGiven = [] {
  if (std::getenv(kSequencesVariable) == nullptr) return false;
  benchmark::RegisterBenchmark("BM_TpeEncodeFile", BM_TpeEncodeFile)
      ->Arg(256)
      ->Arg(1024)
      ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace teller::tpe
