#include "src/reconstruct/log_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/schema_document.h"

namespace teller::reconstruct {
namespace {

std::string Masked(std::string_view line) {
  const std::string clean = CleanLine(line);
  return MaskLine(ParseLine(clean));
}

TEST(MaskLineTest, AgreesWithEveryRowOfTheDocument) {
  const auto rows = testing_support::TableRows("docs/logs.md", "| line | masked |");
  ASSERT_GT(rows.size(), 10u);
  for (const auto& row : rows) EXPECT_EQ(Masked(row[0]), row[1]) << row[0];
}

TEST(MaskLineTest, IsBounded) {
  EXPECT_LE(Masked(std::string(1 << 20, 'a')).size(), 512u);
  EXPECT_LE(Masked("x " + std::string(1 << 20, '1')).size(), 512u);
}

TEST(CleanLineTest, DropsColoursAndWhatWasOverwritten) {
  EXPECT_EQ(CleanLine("\x1b[32mINFO\x1b[0m ok"), "INFO ok");
  EXPECT_EQ(CleanLine("Loading:  10%\rLoading: 100%\r"), "Loading: 100%");
  EXPECT_EQ(CleanLine("a\tb\x1b["), "a b");
}

TEST(ParseLineTest, TakesThePartsApart) {
  const ParsedLine line =
      ParseLine("(Worker_TP0 pid=7) WARNING 12-01 12:00:00 [runner.py:12] slow");
  EXPECT_EQ(line.process, "Worker_TP0 pid=7");
  EXPECT_EQ(line.level, "WARNING");
  EXPECT_EQ(line.time, "12-01 12:00:00");
  EXPECT_EQ(line.location, "runner.py:12");
  EXPECT_EQ(line.message, "slow");
}

TEST(ParseLineTest, KeepsWhatFitsNoFormat) {
  EXPECT_EQ(ParseLine("INFORMATION (x) [y] z").message, "INFORMATION (x) [y] z");
  EXPECT_EQ(ParseLine("").message, "");
  EXPECT_EQ(ParseLine("(").message, "(");
  EXPECT_EQ(ParseLine("[").message, "[");
}

TEST(RequestIdsTest, FindsIdsByFormAndByTheWordBefore) {
  EXPECT_THAT(RequestIds("Added request 17."), testing::ElementsAre("17"));
  EXPECT_THAT(RequestIds("Finished cmpl-0af3-0 (chatcmpl-12)"),
              testing::ElementsAre("cmpl-0af3-0", "chatcmpl-12"));
  EXPECT_THAT(RequestIds("request_id=cmpl-5"), testing::ElementsAre("cmpl-5"));
  EXPECT_THAT(RequestIds("Running: 4 reqs"), testing::IsEmpty());
}

}  // namespace
}  // namespace teller::reconstruct
