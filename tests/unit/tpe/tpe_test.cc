#include "src/tpe/tpe.h"

#include <gmock/gmock.h>

#include "src/core/error.h"

namespace teller::tpe {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kSymbols{"a", "b", "c"};

/// 'a0 b1 b1' -> atoms.
Sequence Parse(const std::string& text) {
  Sequence sequence;
  for (std::size_t i = 0; i + 1 < text.size(); i += 3) {
    sequence.push_back(
        {static_cast<uint32_t>(text[i] - 'a'), static_cast<uint16_t>(text[i + 1] - '0')});
  }
  return sequence;
}

Sequence ForEncoding(const std::string& text) {  // 'a' is symbol 1 of the vocabulary
  Sequence sequence = Parse(text);
  for (Atom& atom : sequence) ++atom.symbol;
  return sequence;
}

TEST(TpeTrainTest, MergesTheMostFrequentPairFirst) {
  // (b, c, +1) three times, (a, b, +1) twice.
  const std::vector<Sequence> corpus{Parse("a0 b1 c2 b1 c2"), Parse("a0 b1 c2")};
  const Vocabulary vocabulary = Train(corpus, kSymbols, {.size = 6});
  EXPECT_THAT(vocabulary.symbols, ElementsAre("(unknown)", "a", "b", "c"));
  EXPECT_EQ(vocabulary.entries[4], (Entry{.left = 2, .right = 3, .depth_step = 1, .count = 3}));
  EXPECT_EQ(vocabulary.entries[5], (Entry{.left = 1, .right = 4, .depth_step = 1, .count = 2}));
  EXPECT_FALSE(vocabulary.exhausted);
}

TEST(TpeTrainTest, TiesGoBySymbolText) {
  const Vocabulary vocabulary = Train(std::vector<Sequence>{Parse("c0 b1"), Parse("a0 b1")},
                                      kSymbols, {.size = 5, .min_pair_count = 1});
  EXPECT_EQ(vocabulary.entries[4].left, 1);  // a before c
}

TEST(TpeTrainTest, StructuralNeverMergesIntoAShallowerNode) {
  const std::vector<Sequence> corpus{Parse("a1 b0"), Parse("a1 b0")};
  EXPECT_EQ(Train(corpus, kSymbols, {.size = 9}).entries.size(), 3u);
  EXPECT_TRUE(Train(corpus, kSymbols, {.size = 9}).exhausted);
  EXPECT_EQ(Train(corpus, kSymbols, {.mode = Mode::kAdjacency, .size = 9}).entries.size(), 4u);
}

TEST(TpeTrainTest, StepsOfDepthMakeDifferentPairs) {
  const std::vector<Sequence> corpus{Parse("a0 b0"), Parse("a0 b0"), Parse("a0 b1"),
                                     Parse("a0 b1")};
  const Vocabulary vocabulary = Train(corpus, kSymbols, {.size = 9});
  ASSERT_EQ(vocabulary.entries.size(), 5u);
  EXPECT_EQ(vocabulary.entries[3].depth_step, 0);
  EXPECT_EQ(vocabulary.entries[4].depth_step, 1);
  EXPECT_EQ(Train(corpus, kSymbols, {.mode = Mode::kAdjacencyPublished, .size = 9}).entries.size(),
            4u);
}

TEST(TpeTrainTest, StopsAtTheWantedCut) {
  // 8 atoms; the first merge (b, c) leaves 5 tokens, the second (a, bc) 3.
  const std::vector<Sequence> corpus{Parse("a0 b1 c2 b1 c2"), Parse("a0 b1 c2")};
  const Vocabulary third = Train(corpus, kSymbols, {.size = 99, .target_cut = 0.3});
  EXPECT_EQ(third.entries.size(), 5u);
  EXPECT_EQ(third.corpus_atoms, 8u);
  EXPECT_EQ(third.corpus_tokens, 5u);
  EXPECT_FALSE(third.exhausted);
  EXPECT_EQ(Train(corpus, kSymbols, {.size = 99, .target_cut = 0.5}).corpus_tokens, 3u);
  EXPECT_TRUE(Train(corpus, kSymbols, {.size = 99, .target_cut = 0.9}).exhausted);
}

TEST(TpeTrainTest, EmptyCorpusKnowsOnlyTheUnknownSymbol) {
  const Vocabulary vocabulary = Train({}, kSymbols, {});
  EXPECT_EQ(vocabulary.entries.size(), 1u);
  EXPECT_TRUE(vocabulary.exhausted);
  EXPECT_TRUE(Encoder(vocabulary).Encode({}).empty());
}

TEST(TpeTrainTest, ForeignSymbolIsRefused) {
  EXPECT_THROW(Train(std::vector<Sequence>{{{.symbol = 3}}}, kSymbols, {}), DataError);
}

TEST(TpeEncodeTest, OfEqualNeighboursTheLeftmostMergeFirst) {
  const Vocabulary vocabulary =
      Train(std::vector<Sequence>{Parse("a0 a0 a0")}, kSymbols, {.size = 3});
  EXPECT_THAT(
      Encoder(vocabulary).Encode(ForEncoding("a0 a0 a0")),
      ElementsAre(Token{.id = 2, .first = 0, .count = 2}, Token{.id = 1, .first = 2, .count = 1}));
}

TEST(TpeEncodeTest, BarrierStaysAlone) {
  const Vocabulary vocabulary =
      Train(std::vector<Sequence>{Parse("a0 b1 c2"), Parse("a0 b1 c2")}, kSymbols, {.size = 9});
  Sequence sequence = ForEncoding("a0 b1 c2");
  Encoder encoder(vocabulary);
  EXPECT_EQ(encoder.Encode(sequence).size(), 1u);
  sequence[1].barrier = true;
  EXPECT_EQ(encoder.Encode(sequence).size(), 3u);
}

TEST(TpeEncodeTest, UnknownSymbolIsASingleToken) {
  const Vocabulary vocabulary =
      Train(std::vector<Sequence>{Parse("a0 b1"), Parse("a0 b1")}, kSymbols, {.size = 9});
  EXPECT_THAT(Encoder(vocabulary).Encode(Sequence{{.symbol = 1}, {.symbol = 77, .depth = 1}}),
              ElementsAre(Token{.id = 1, .first = 0, .count = 1},
                          Token{.id = 0, .first = 1, .count = 1, .depth = 1}));
}

TEST(TpeDecodeTest, RefusesWhatCannotBe) {
  const Vocabulary vocabulary = Train(std::vector<Sequence>{Parse("a1 b0"), Parse("a1 b0")},
                                      kSymbols, {.mode = Mode::kAdjacency, .size = 9});
  EXPECT_THROW(Decode(vocabulary, std::vector<Token>{{.id = 99}}), DataError);
  EXPECT_THROW(Decode(vocabulary, std::vector<Token>{{.id = 3, .depth = 0}}),
               DataError);  // b at -1
}

TEST(TpeVocabularyTest, CheckRefusesWhatTrainingNeverMakes) {
  Vocabulary good =
      Train(std::vector<Sequence>{Parse("a0 b1"), Parse("a0 b1")}, kSymbols, {.size = 9});
  EXPECT_NO_THROW(CheckVocabulary(good));
  auto bad = good;
  bad.entries[3].left = 3;  // itself
  EXPECT_THROW(CheckVocabulary(bad), DataError);
  bad = good;
  bad.entries[3].depth_step = -1;
  EXPECT_THROW(CheckVocabulary(bad), DataError);
  bad = good;
  std::swap(bad.symbols[1], bad.symbols[2]);
  EXPECT_THROW(CheckVocabulary(bad), DataError);
  bad = good;
  for (int32_t i = 3; i < 60; ++i) {  // doubles with every entry
    bad.entries.push_back({.left = i, .right = i, .depth_step = 0});
  }
  EXPECT_THROW(CheckVocabulary(bad), DataError);
}

TEST(TpeParentsTest, ParentIsTheNearestShallowerNode) {
  EXPECT_THAT(ParentsOf(Parse("a0 b1 c3 b1 a0")), ElementsAre(-1, 0, 1, 0, -1));
}

TEST(TpePublishedTest, TwoAtomsANode) {
  const Sequence nodes = Parse("a0 b1");
  EXPECT_THAT(PublishedAtoms(nodes, std::vector<uint8_t>{2, 0}, 10),
              ElementsAre(Atom{12, 0}, Atom{0, 0}, Atom{10, 1}, Atom{1, 1}));
}

}  // namespace
}  // namespace teller::tpe
