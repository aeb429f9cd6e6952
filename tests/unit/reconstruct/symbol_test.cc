#include "src/reconstruct/symbol.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/schema_document.h"

namespace teller::reconstruct {
namespace {

TEST(NormalizeSymbolTest, AgreesWithEveryRowOfTheDocument) {
  const auto rows = testing_support::TableRows("docs/symbols.md", "| layer | name | symbol |");
  ASSERT_GT(rows.size(), 25u);
  for (const auto& row : rows) {
    EXPECT_EQ(NormalizeSymbol(row[1], std::string_view(row[0])), row[2])
        << row[0] << ": " << row[1];
  }
}

TEST(NormalizeSymbolTest, IsIdempotent) {
  for (const auto& row :
       testing_support::TableRows("docs/symbols.md", "| layer | name | symbol |")) {
    EXPECT_EQ(NormalizeSymbol(row[2], std::string_view(row[0])), row[2]);
  }
}

TEST(NormalizeSymbolTest, CutsLongNamesBetweenCharacters) {
  std::string name(95, 'a');
  name += "\xC3\xA4";  // bytes 96 and 97
  EXPECT_EQ(NormalizeSymbol(name, trace::Layer::kBackend), std::string(95, 'a'));
}

TEST(NormalizeSymbolTest, NamesInTruthWithoutLayerCountAsOperators) {
  EXPECT_EQ(NormalizeSymbol("aten::mm", std::string_view()), "aten::mm");
}

TEST(NormalizeSymbolTest, SurvivesUnbalancedBrackets) {
  EXPECT_EQ(NormalizeSymbol("a>>b<<c((", trace::Layer::kDevice), "a>>b");
  EXPECT_EQ(NormalizeSymbol("\n\t\x01", trace::Layer::kBackend), "(unnamed)");
}

}  // namespace
}  // namespace teller::reconstruct
