#include "src/interop/decimal.h"

#include <gtest/gtest.h>

#include <optional>

namespace teller::interop {
namespace {

TEST(DecimalTest, ReadsMicrosecondsWithoutLosingADigit) {
  EXPECT_EQ(MicrosecondsToNs("4458676522690.655"), 4458676522690655);
  EXPECT_EQ(MicrosecondsToNs("4458676522690.6"), 4458676522690600);
  EXPECT_EQ(MicrosecondsToNs("1661203462598738"), 1661203462598738000);
  EXPECT_EQ(MicrosecondsToNs("1661203462598738.001"), 1661203462598738001);
  EXPECT_EQ(MicrosecondsToNs("68.0"), 68000);
  EXPECT_EQ(MicrosecondsToNs("0"), 0);
  EXPECT_EQ(MicrosecondsToNs("-3.5"), -3500);
  EXPECT_EQ(MicrosecondsToNs("1.682725898236567e+15"), 1682725898236567000);
  EXPECT_EQ(MicrosecondsToNs("12E-3"), 12);
  EXPECT_EQ(MicrosecondsToNs("\"17.25\""), 17250);
}

TEST(DecimalTest, RoundsBelowANanosecondHalfUp) {
  EXPECT_EQ(MicrosecondsToNs("0.0004"), 0);
  EXPECT_EQ(MicrosecondsToNs("0.0005"), 1);
  EXPECT_EQ(MicrosecondsToNs("1.00049999"), 1000);
  EXPECT_EQ(MicrosecondsToNs("-0.0006"), -1);
}

TEST(DecimalTest, RefusesWhatIsNoNumberOrDoesNotFit) {
  for (const char* text :
       {"", "abc", "NaN", "Infinity", "1.2.3", "1e", "--1", "9223372036854776", "1e60", "1 2"}) {
    EXPECT_EQ(MicrosecondsToNs(text), std::nullopt) << text;
  }
  EXPECT_EQ(MicrosecondsToNs("9223372036854775.807"), 9223372036854775807);
}

TEST(DecimalTest, ReadsIntegersAboveTheSignedRange) {
  EXPECT_EQ(ParseUnsigned("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(ParseUnsigned("18446744073709551616"), std::nullopt);
  EXPECT_EQ(ParseUnsigned("-1"), std::nullopt);
  EXPECT_EQ(ParseInteger("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseInteger("17.0"), 17);
  EXPECT_EQ(ParseInteger("17.5"), std::nullopt);
}

}  // namespace
}  // namespace teller::interop
