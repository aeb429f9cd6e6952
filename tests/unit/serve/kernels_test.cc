#include "src/workload/serve/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace teller::serve::kernels {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

TEST(KernelsTest, RmsNormDividesByTheRootMeanSquare) {
  const std::vector<float> x = {3, 4}, weight = {1, 2};  // mean square 12.5, root 3.5355
  std::vector<float> out(2);
  RmsNorm(x.data(), weight.data(), 1, 2, 0, out.data());
  EXPECT_THAT(out, ElementsAre(FloatNear(0.84853f, 1e-4f), FloatNear(2.26274f, 1e-4f)));
}

TEST(KernelsTest, AddRmsNormKeepsTheSumAsTheResidual) {
  const std::vector<float> x = {1, 1}, weight = {1, 1};
  std::vector<float> residual = {2, 3}, out(2);
  AddRmsNorm(x.data(), residual.data(), weight.data(), 1, 2, 0, out.data());
  EXPECT_THAT(residual, ElementsAre(3, 4));
  EXPECT_THAT(out, ElementsAre(FloatNear(0.84853f, 1e-4f), FloatNear(1.13137f, 1e-4f)));
}

TEST(KernelsTest, RopeRotatesQueriesAndKeysButNotValues) {
  // One head of width 2; at position 1 the angle is a quarter turn: cosine 0, sine 1.
  const std::vector<float> cos_sin = {1, 0, 0, 1};
  std::vector<float> qkv = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> positions = {1};
  Rope(qkv.data(), positions.data(), cos_sin.data(), 1, {.query = 1, .key_value = 1, .width = 2});
  EXPECT_THAT(qkv, ElementsAre(-2, 1, -4, 3, 5, 6));
}

TEST(KernelsTest, AttentionReadsThePagedCacheCausally) {
  // Two positions in blocks 2 and 0 of one token each; keys equal, so the second row averages the
  // values 10 and 30.
  const Heads heads = {.query = 1, .key_value = 1, .width = 1};
  const std::vector<float> qkv = {1, 5, 10, 1, 5, 30};  // rows of (query, key, value)
  const std::vector<int32_t> slots = {2, 0}, blocks = {2, 0};
  std::vector<float> keys(3), values(3), out(2);
  ReshapeAndCache(qkv.data(), slots.data(), 2, heads, keys.data(), values.data());
  EXPECT_THAT(values, ElementsAre(30, 0, 10));
  const Sequence sequence = {.first_row = 0, .rows = 2, .start = 0};
  PagedAttention({.qkv = qkv.data(),
                  .key_cache = keys.data(),
                  .value_cache = values.data(),
                  .sequences = &sequence,
                  .sequence_count = 1,
                  .block_tables = blocks.data(),
                  .table_width = 2,
                  .block_tokens = 1,
                  .heads = heads,
                  .out = out.data()});
  EXPECT_THAT(out, ElementsAre(10, 20));
}

TEST(KernelsTest, SiluMulMultipliesTheHalves) {
  const std::vector<float> x = {0, 1, 7, 2};  // silu(0) 7 = 0; silu(1) 2 = 2 * 0.731059
  std::vector<float> out(2);
  SiluMul(x.data(), 1, 2, out.data());
  EXPECT_THAT(out, ElementsAre(0, FloatNear(1.462117f, 1e-5f)));
}

TEST(KernelsTest, ArgmaxOfShardsCountsAcrossPartsAndTakesTheFirstOfEquals) {
  // Two parts of [2 rows, 2 columns].
  const std::vector<float> logits = {1, 5, 0, 0, 5, 2, 0, 9};
  std::vector<int32_t> out(2);
  ArgmaxOfShards(logits.data(), 2, 2, 2, out.data());
  EXPECT_THAT(out, ElementsAre(1, 3));  // row 0: 1 5 5 2; row 1: 0 0 0 9
}

}  // namespace
}  // namespace teller::serve::kernels
