#include "tests/support/sequence_generator.h"

#include <algorithm>

namespace teller::testing_support {
namespace {

constexpr uint32_t kOperators = 48;

/// One operator call: the operator, an inner call and a launch where it has them, now and then not
/// as usual.
void AppendOperator(Random& random, uint32_t symbol, uint16_t depth, tpe::Sequence& sequence) {
  sequence.push_back({symbol, depth, false});
  if ((symbol % 5 < 2) != random.Bernoulli(0.02)) {
    sequence.push_back({kOperators + symbol % 8, static_cast<uint16_t>(depth + 1), false});
  }
  if ((symbol % 3 < 2) != random.Bernoulli(0.02)) {
    sequence.push_back({kOperators + 8 + symbol % 4, static_cast<uint16_t>(depth + 1), false});
  }
}

}  // namespace

tpe::Sequence RandomSequence(Random& random, const SequenceOptions& options) {
  const auto atoms = static_cast<std::size_t>(random.UniformInt(
      static_cast<int64_t>(options.min_atoms), static_cast<int64_t>(options.max_atoms)));
  tpe::Sequence sequence;
  int64_t depth = options.pruned ? random.UniformInt(0, 3) : 0;
  for (std::size_t i = 0; i < atoms; ++i) {
    sequence.push_back({static_cast<uint32_t>(random.UniformInt(0, options.symbols - 1)),
                        static_cast<uint16_t>(depth), random.Bernoulli(options.barriers)});
    depth = random.UniformInt(0, depth + (options.pruned ? 2 : 1));
  }
  return sequence;
}

std::vector<tpe::Sequence> EngineSequences(Random& random, std::size_t atoms) {
  std::vector<uint32_t> layer;  // the usual order of operators in a layer
  for (int i = 0; i < 16; ++i)
    layer.push_back(static_cast<uint32_t>(random.UniformInt(0, kOperators - 1)));
  std::vector<tpe::Sequence> sequences;
  for (std::size_t made = 0; made < atoms; made += sequences.back().size()) {
    tpe::Sequence& sequence = sequences.emplace_back();
    sequence.push_back({60, 0, false});
    const int64_t layers = random.UniformInt(8, 14);
    for (int64_t l = 0; l < layers; ++l) {
      sequence.push_back({61, 1, false});
      for (const uint32_t usual : layer) {
        const uint32_t symbol = random.Bernoulli(0.03)
                                    ? static_cast<uint32_t>(random.UniformInt(0, kOperators - 1))
                                    : usual;
        AppendOperator(random, symbol, 2, sequence);
      }
    }
  }
  return sequences;
}

std::vector<std::string> SymbolNames(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    names.push_back("s" + std::string(i < 10 ? "0" : "") + std::to_string(i));
  }
  return names;
}

}  // namespace teller::testing_support
