#include "src/text/sentence_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::text {
namespace {

std::vector<std::string> Lines() {
  return {"a rank waits for its peer", "the peer waits for the link", "a step is one iteration",
          "the kernel runs on a stream", "a rank runs a step on the stream"};
}

SentencePieces Trained(bool byte_fallback = false) {
  return SentencePieces::Train(
      Lines(), {.vocabulary_size = byte_fallback ? 330 : 60, .byte_fallback = byte_fallback});
}

TEST(SentencePiecesTest, DecodesWhatItEncoded) {
  const SentencePieces pieces = Trained();
  const std::string text = "the rank waits on a stream";
  EXPECT_EQ(pieces.Decode(pieces.Encode(text)), text);
}

TEST(SentencePiecesTest, TrainingTwiceGivesTheSameBytes) {
  EXPECT_EQ(Trained().bytes(), Trained().bytes());
}

TEST(SentencePiecesTest, KeepsUserSymbolsWhole) {
  const SentencePieces pieces =
      SentencePieces::Train(Lines(), {.vocabulary_size = 60, .user_symbols = {"<num>"}});
  EXPECT_EQ(pieces.Encode("rank <num>").size() + 1, pieces.Encode("rank <num><num>").size());
}

TEST(SentencePiecesTest, UnknownIdsAreWrittenAsTheUnknownPiece) {
  const SentencePieces pieces = Trained();
  const std::vector<int32_t> ids = {-5, 1 << 30};
  EXPECT_EQ(pieces.Decode(ids), pieces.Decode(std::vector<int32_t>(2, pieces.unknown_id())));
}

TEST(SentencePiecesTest, RefusesBytesThatAreNoModel) {
  EXPECT_THROW(SentencePieces::FromBytes("no model", "x.model"), DataError);
  EXPECT_THROW(SentencePieces::FromBytes("", "x.model"), DataError);
}

TEST(StreamDecoderTest, ConcatenatedTextEqualsTheWhole) {
  for (const bool byte_fallback : {false, true}) {
    const SentencePieces pieces = Trained(byte_fallback);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(seed);
      Random random(seed);
      StreamDecoder stream(pieces);
      std::vector<int32_t> ids;
      std::string text;
      for (int i = 0; i < 20; ++i) {
        // Ids from 3 on (no control pieces); with fallback from 259 on (no lone bytes).
        const int32_t low = byte_fallback ? 259 : 3;
        ids.push_back(static_cast<int32_t>(random.UniformInt(low, pieces.size() - 1)));
        text += stream.Add(ids.back());
      }
      EXPECT_EQ(text, pieces.Decode(ids));
    }
  }
}

TEST(StreamDecoderTest, HoldsBackAnUnfinishedCharacter) {
  const SentencePieces pieces = Trained(/*byte_fallback=*/true);
  const std::vector<int32_t> ids = pieces.Encode("\xE2\x82\xAC");  // the euro sign: three bytes
  StreamDecoder stream(pieces);
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.push_back(stream.Add(id));
  ASSERT_GE(parts.size(), 3u);
  EXPECT_EQ(parts.back(), "\xE2\x82\xAC");
  EXPECT_EQ(parts[parts.size() - 2], "");
}

}  // namespace
}  // namespace teller::text
