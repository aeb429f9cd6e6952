#include "src/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace teller {
namespace {

TEST(RandomTest, SameSeedGivesSameNumbersAndPartsAreIndependent) {
  Random a(7), b(7), part(7, "schedule");
  const uint64_t first = a.Next();
  EXPECT_EQ(first, b.Next());
  EXPECT_NE(first, part.Next());
}

TEST(RandomTest, UniformIntCoversBothEnds) {
  Random random(1);
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.UniformInt(-1, 1));
  EXPECT_EQ(seen, (std::set<int64_t>{-1, 0, 1}));
}

TEST(RandomTest, LogUniformHasItsMedianAtTheGeometricMean) {
  Random random(2);
  int below = 0;
  for (int i = 0; i < 4000; ++i) below += random.LogUniform(1, 100) < 10 ? 1 : 0;
  EXPECT_NEAR(below, 2000, 200);  // binomial: 3 sigma is 95
}

TEST(RandomTest, NormalHasUnitVariance) {
  Random random(3);
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    const double x = random.Normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
}

}  // namespace
}  // namespace teller
