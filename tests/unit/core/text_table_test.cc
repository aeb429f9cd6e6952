#include "src/core/text_table.h"

#include <gtest/gtest.h>

namespace teller {
namespace {

TEST(TextTableTest, AlignsNumbersRightAndTextLeft) {
  TextTable table({"method", "F1"});
  table.AddRow({"ours", ".97"});
  table.AddRow({"a longer one", "1.00"});
  EXPECT_EQ(table.ToText(),
            "method          F1\n"
            "------------  ----\n"
            "ours           .97\n"
            "a longer one  1.00\n");
}

TEST(TextTableTest, QuotesCsvCellsThatNeedIt) {
  TextTable table({"a", "b"});
  table.AddRow({"x,y", "say \"hi\""});
  EXPECT_EQ(table.ToCsv(), "a,b\n\"x,y\",\"say \"\"hi\"\"\"\n");
}

TEST(TextTableTest, EscapesMarkdownBarsAndLatexSpecials) {
  TextTable table({"a_b"});
  table.AddRow({"50 % | x"});
  EXPECT_NE(table.ToMarkdown().find("50 % \\| x"), std::string::npos);
  EXPECT_NE(table.ToLatex().find("a\\_b"), std::string::npos);
  EXPECT_NE(table.ToLatex().find("50 \\% | x"), std::string::npos);
}

}  // namespace
}  // namespace teller
