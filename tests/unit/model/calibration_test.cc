#include "src/model/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace teller::model {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

TEST(CalibrationTest, FindsTemperatureAndOffsetOfCountedOutcomes) {
  // 1,000 steps at logit 2 of which 731 are abnormal (sigmoid(1) = .731) and 1,000 at logit -2 of
  // which 119 are (sigmoid(-2) = .119): slope (1 + 2) / 4 = .75, temperature 1.333, offset 1 - .75
  // * 2 = -.5.
  std::vector<float> logits;
  std::vector<uint8_t> abnormal;
  for (int i = 0; i < 1000; ++i) {
    logits.push_back(2);
    abnormal.push_back(i < 731);
    logits.push_back(-2);
    abnormal.push_back(i < 119);
  }
  const Calibration calibration = FitCalibration(logits, abnormal);
  ASSERT_TRUE(calibration.fitted);
  EXPECT_NEAR(calibration.temperature, 4.0 / 3, 0.01);
  EXPECT_NEAR(calibration.offset, -0.5, 0.01);
  EXPECT_NEAR(CalibratedProbability(calibration, 2), 0.731, 0.002);
}

TEST(CalibrationTest, SeparableClassesGiveFiniteNumbers) {
  const std::vector<float> logits = {-5, -4, 4, 5};
  const std::vector<uint8_t> abnormal = {0, 0, 1, 1};
  const Calibration calibration = FitCalibration(logits, abnormal);
  ASSERT_TRUE(calibration.fitted);
  EXPECT_GT(CalibratedProbability(calibration, 5), 0.6);
  EXPECT_LT(CalibratedProbability(calibration, 5), 0.95);  // two of two prove little
}

TEST(CalibrationTest, IsNotFittedOnOneClassOrAgainstTheModel) {
  const std::vector<float> logits = {-1, 0, 1, 2};
  EXPECT_FALSE(FitCalibration(logits, std::vector<uint8_t>{1, 1, 1, 1}).fitted);
  EXPECT_FALSE(FitCalibration({}, {}).fitted);
  EXPECT_FALSE(FitCalibration(logits, std::vector<uint8_t>{1, 1, 0, 0}).fitted);
  EXPECT_TRUE(std::isnan(CalibratedProbability({}, 1)));
}

TEST(KindProbabilitiesTest, UnknownIsTheChanceThatNoKindHolds) {
  // Sigmoids .5 and .5: unknown .25, normalised by 1.25.
  EXPECT_THAT(KindProbabilities(std::vector<float>{0, 0}),
              ElementsAre(FloatNear(0.4, 1e-6), FloatNear(0.4, 1e-6), FloatNear(0.2, 1e-6)));
  EXPECT_GT(KindProbabilities(std::vector<float>{-9, -9}).back(), 0.99);
  EXPECT_THAT(KindProbabilities({}), ElementsAre(1));
}

}  // namespace
}  // namespace teller::model
