#include "src/dataset/token_text.h"

#include <gtest/gtest.h>

namespace teller::dataset {
namespace {

tpe::Vocabulary Words() {
  tpe::Vocabulary words{.mode = tpe::Mode::kAdjacency, .symbols = {"(unknown)", "a", "b"}};
  words.entries = {{.symbol = 0},
                   {.symbol = 1},
                   {.symbol = 2},
                   {.left = 1, .right = 2, .depth_step = 1},    // 3: a(b)
                   {.left = 3, .right = 2, .depth_step = 0},    // 4: a(b b)
                   {.left = 4, .right = 3, .depth_step = -1},   // 5: a(b b) a(b)
                   {.left = 2, .right = 1, .depth_step = -2}};  // 6: b, then a two levels up
  return words;
}

TEST(TokenTextTest, WritesFragmentsOnOneLine) {
  EXPECT_EQ(TokenText(Words(), 1), "a");
  EXPECT_EQ(TokenText(Words(), 3), "a(b)");
  EXPECT_EQ(TokenText(Words(), 4), "a(b*2)");
  EXPECT_EQ(TokenText(Words(), 5), "a(b*2) a(b)");
  EXPECT_EQ(TokenText(Words(), 6), "b ^^a");
}

TEST(TokenTextTest, WritesLittleTrees) {
  EXPECT_EQ(TokenTree(Words(), 5), "a\n  b\n  b\na\n  b\n");
  EXPECT_EQ(TokenTree(Words(), 6), "    b\na\n");
}

}  // namespace
}  // namespace teller::dataset
