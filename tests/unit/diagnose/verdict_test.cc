#include "src/diagnose/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace teller::diagnose {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AbnormalStepsTest, NamesStepsUntilTheShareOfFalseOnesWouldBeTooLarge) {
  // Allowed at .1 of five: .02, .04, .06, .08, .1. The third smallest, .05, is under .06; the
  // fourth, .09, is over .08.
  EXPECT_THAT(AbnormalSteps(std::vector<float>{0.05f, 0.9f, 0.01f, 0.09f, 0.03f}, 0.1),
              ElementsAre(1, 0, 1, 0, 1));
}

TEST(AbnormalStepsTest, OneSmallValueAmongManyIsNotEnough) {
  std::vector<float> p_values(1000, 0.5f);
  p_values[3] = 0.001f;
  EXPECT_THAT(AbnormalSteps(p_values, 0.1), ::testing::Each(0));
}

TEST(AbnormalStepsTest, NothingGivesNothing) { EXPECT_THAT(AbnormalSteps({}, 0.1), IsEmpty()); }

}  // namespace
}  // namespace teller::diagnose
