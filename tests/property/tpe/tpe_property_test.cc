#include <gtest/gtest.h>

#include <numeric>

#include "src/core/random.h"
#include "src/tpe/tpe.h"
#include "tests/property/tpe/brute_force.h"
#include "tests/support/sequence_generator.h"

namespace teller::tpe {
namespace {

using testing_support::BruteForceEncode;
using testing_support::BruteForceTrain;
using testing_support::RandomSequence;
using testing_support::SequenceOptions;
using testing_support::SymbolNames;

constexpr Mode kModes[] = {Mode::kStructural, Mode::kAdjacency, Mode::kAdjacencyPublished};

std::vector<Sequence> RandomCorpus(Random& random, const SequenceOptions& options,
                                   std::size_t count) {
  std::vector<Sequence> corpus;
  for (std::size_t i = 0; i < count; ++i) {
    // Now and then a sequence comes twice, so that weights matter.
    corpus.push_back(!corpus.empty() && random.Bernoulli(0.3)
                         ? corpus[static_cast<std::size_t>(
                               random.UniformInt(0, static_cast<int64_t>(corpus.size()) - 1))]
                         : RandomSequence(random, options));
  }
  return corpus;
}

SequenceOptions DrawOptions(Random& random) {
  return {.max_atoms = static_cast<std::size_t>(random.UniformInt(1, 60)),
          .symbols = static_cast<uint32_t>(random.UniformInt(1, 8)),
          .barriers = random.Bernoulli(0.5) ? 0.1 : 0.0,
          .pruned = random.Bernoulli(0.5)};
}

/// Numbers of `symbols` in the vocabulary, for Encode.
std::vector<Sequence> Renumber(std::vector<Sequence> corpus, const Vocabulary& vocabulary,
                               const std::vector<std::string>& symbols) {
  for (Sequence& sequence : corpus) {
    for (Atom& atom : sequence) {
      const auto found =
          std::find(vocabulary.symbols.begin(), vocabulary.symbols.end(), symbols[atom.symbol]);
      atom.symbol = found == vocabulary.symbols.end()
                        ? 0
                        : static_cast<uint32_t>(found - vocabulary.symbols.begin());
    }
  }
  return corpus;
}

TEST(TpePropertyTest, TrainerAndEncoderAgreeWithBruteForce) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto corpus = RandomCorpus(random, DrawOptions(random), 6);
    const TrainOptions options{.mode = kModes[seed % 3],
                               .size = static_cast<std::size_t>(random.UniformInt(1, 60)),
                               .min_pair_count = static_cast<uint64_t>(random.UniformInt(1, 3))};
    const Vocabulary vocabulary = Train(corpus, symbols, options);
    Vocabulary expected = BruteForceTrain(corpus, symbols, options);
    expected.corpus_hash = vocabulary.corpus_hash;
    ASSERT_EQ(vocabulary, expected);
    ASSERT_NO_THROW(CheckVocabulary(vocabulary));
    Encoder encoder(vocabulary);
    auto unseen = RandomCorpus(random, DrawOptions(random), 3);
    unseen.insert(unseen.end(), corpus.begin(), corpus.end());
    for (const Sequence& sequence : Renumber(unseen, vocabulary, symbols)) {
      ASSERT_EQ(encoder.Encode(sequence), BruteForceEncode(vocabulary, sequence));
    }
  }
}

TEST(TpePropertyTest, DecodeOfEncodeIsTheSame) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto corpus = RandomCorpus(random, DrawOptions(random), 5);
    const Mode mode = seed % 2 == 0 ? Mode::kStructural : Mode::kAdjacency;
    const Vocabulary vocabulary = Train(corpus, symbols, {.mode = mode, .size = 40});
    Encoder encoder(vocabulary);
    for (Sequence sequence : Renumber(corpus, vocabulary, symbols)) {
      std::vector<Token> bare;  // ids and first depths are all that Decode may use
      for (const Token& token : encoder.Encode(sequence)) {
        bare.push_back({.id = token.id, .depth = token.depth});
      }
      const Sequence decoded = Decode(vocabulary, bare);
      for (Atom& atom : sequence) atom.barrier = false;
      ASSERT_EQ(decoded, sequence);
      ASSERT_EQ(ParentsOf(decoded), ParentsOf(sequence));
    }
  }
}

TEST(TpePropertyTest, PublishedModeDecodesSymbols) {
  const auto symbols = SymbolNames(8);
  Random random(5);
  const auto corpus = RandomCorpus(random, {.min_atoms = 20, .max_atoms = 40}, 10);
  const Vocabulary vocabulary =
      Train(corpus, symbols, {.mode = Mode::kAdjacencyPublished, .size = 40});
  Encoder encoder(vocabulary);
  for (const Sequence& sequence : Renumber(corpus, vocabulary, symbols)) {
    const Sequence decoded = Decode(vocabulary, encoder.Encode(sequence));
    ASSERT_EQ(decoded.size(), sequence.size());
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      ASSERT_EQ(decoded[i].symbol, sequence[i].symbol);
    }
  }
}

TEST(TpePropertyTest, MoreMergesNeverGiveMoreTokens) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto corpus = RandomCorpus(random, DrawOptions(random), 8);
    const auto unseen = RandomCorpus(random, DrawOptions(random), 8);
    for (const Mode mode : kModes) {
      Vocabulary vocabulary = Train(corpus, symbols, {.mode = mode, .size = 50});
      std::size_t fewer = 0;
      while (true) {
        Encoder encoder(vocabulary);
        std::size_t tokens = 0;
        for (const Sequence& sequence : Renumber(unseen, vocabulary, symbols)) {
          tokens += encoder.Encode(sequence).size();
        }
        ASSERT_GE(tokens, fewer);
        fewer = tokens;
        if (vocabulary.entries.size() == vocabulary.symbols.size()) break;
        vocabulary.entries.pop_back();
      }
    }
  }
}

TEST(TpePropertyTest, VocabularyDoesNotDependOnOrderOrNumbering) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto corpus = RandomCorpus(random, DrawOptions(random), 8);
    const TrainOptions options{.mode = kModes[seed % 3], .size = 40};
    const Vocabulary vocabulary = Train(corpus, symbols, options);
    random.Shuffle(std::span(corpus));
    std::vector<uint32_t> order(symbols.size());
    std::iota(order.begin(), order.end(), 0);
    random.Shuffle(std::span(order));
    std::vector<std::string> shuffled(symbols.size());
    for (std::size_t i = 0; i < order.size(); ++i) shuffled[order[i]] = symbols[i];
    for (Sequence& sequence : corpus) {
      for (Atom& atom : sequence) atom.symbol = order[atom.symbol];
    }
    ASSERT_EQ(Train(corpus, shuffled, options), vocabulary);
  }
}

TEST(TpePropertyTest, TimesAddUpAndParentsAreTheTrees) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto corpus = RandomCorpus(random, DrawOptions(random), 5);
    const Vocabulary vocabulary = Train(corpus, symbols, {.mode = kModes[seed % 3], .size = 40});
    Encoder encoder(vocabulary);
    for (const Sequence& sequence : Renumber(corpus, vocabulary, symbols)) {
      const auto tokens = encoder.Encode(sequence);
      std::vector<int64_t> channel;
      for (std::size_t i = 0; i < sequence.size(); ++i)
        channel.push_back(random.UniformInt(0, 1'000'000'007));
      const auto sums = SumByToken(tokens, channel);
      ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}),
                std::accumulate(channel.begin(), channel.end(), int64_t{0}));
      const auto parents = ParentsOf(sequence);
      const auto of_tokens = ParentsOfTokens(tokens, parents);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        const int32_t parent = parents[tokens[t].first];
        if (parent < 0) {
          ASSERT_EQ(of_tokens[t].token, -1);
        } else {
          ASSERT_EQ(tokens[static_cast<std::size_t>(of_tokens[t].token)].first + of_tokens[t].atom,
                    static_cast<uint32_t>(parent));
        }
      }
    }
  }
}

TEST(TpePropertyTest, StructuralTokensAreSubtreeFragments) {
  const auto symbols = SymbolNames(8);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Vocabulary vocabulary =
        Train(RandomCorpus(random, DrawOptions(random), 8), symbols, {.size = 50});
    for (uint32_t entry = 0; entry < vocabulary.entries.size(); ++entry) {
      for (const ExpandedAtom& atom : Expand(vocabulary, entry)) ASSERT_GE(atom.depth, 0);
    }
  }
}

}  // namespace
}  // namespace teller::tpe
