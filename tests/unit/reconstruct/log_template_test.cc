#include "src/reconstruct/log_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/core/random.h"

namespace teller::reconstruct {
namespace {

std::vector<std::string> Texts(const LogTemplates& mined) {
  std::vector<std::string> texts;
  for (const LogTemplate& one : mined.templates) texts.push_back(one.text);
  return texts;
}

const std::vector<std::string> kLines = {
    "INFO engine: Added request <id>.",
    "INFO engine: Finished request <id> after <n> tokens in <duration>.",
    "WARNING pool: queue of worker alpha is full",
    "WARNING pool: queue of worker beta is full",
    "WARNING pool: queue of worker gamma is full",
    "ERROR pool: worker alpha died",
};

TEST(MineTemplatesTest, WordsThatDifferAreVariable) {
  const LogTemplates mined = MineTemplates(kLines);
  EXPECT_THAT(Texts(mined),
              testing::ElementsAre("ERROR pool: worker alpha died", kLines[0], kLines[1],
                                   "WARNING pool: queue of worker <*> is full"));
  EXPECT_EQ(mined.templates[3].lines, 3);
  EXPECT_EQ(mined.of, (std::vector<int32_t>{1, 2, 3, 3, 3, 0}));
}

TEST(MineTemplatesTest, OrderAndNumberOfLinesDoNotMatter) {
  const auto expected = Texts(MineTemplates(kLines));
  Random random(5);
  for (int turn = 0; turn < 20; ++turn) {
    SCOPED_TRACE(turn);
    std::vector<std::string> lines;
    for (int i = 0; i < 40; ++i)
      lines.push_back(kLines[static_cast<std::size_t>(random.UniformInt(0, 5))]);
    lines.insert(lines.end(), kLines.rbegin(), kLines.rend());
    EXPECT_EQ(Texts(MineTemplates(lines)), expected);
  }
}

TEST(MineTemplatesTest, WordsWithDigitsAreVariableFromTheStart) {
  EXPECT_THAT(Texts(MineTemplates(std::vector<std::string>{"worker7 is up", "worker9 is up"})),
              testing::ElementsAre("<*> is up"));
}

TEST(MineTemplatesTest, HostileLogsStayBounded) {
  std::vector<std::string> lines{"", " ", std::string(512, ' ')};
  for (int i = 0; i < 3000; ++i) {
    std::string word = "w";
    for (int digit = i; digit > 0; digit /= 26) word += static_cast<char>('a' + digit % 26);
    lines.push_back("a b " + word + " " + word + "x " + word + "y");
  }
  const LogTemplates mined = MineTemplates(lines);
  EXPECT_LE(mined.templates.size(), 258u);
  EXPECT_EQ(mined.of.size(), lines.size());
}

TEST(MineTemplatesTest, NoLinesGiveNoTemplates) {
  EXPECT_TRUE(MineTemplates({}).templates.empty());
}

}  // namespace
}  // namespace teller::reconstruct
