#include "src/experiment/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "src/core/error.h"
#include "src/experiment/chart.h"
#include "src/experiment/evaluation.h"
#include "src/experiment/published.h"
#include "src/experiment/table_layout.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Cell> SomeCells() {
  Cell f1{.table = "E3",
          .row = {{"source", "here"},
                  {"view", "combined"},
                  {"mode", "structural"},
                  {"vocabulary", 256},
                  {"inputs", "tokens"}},
          .metric = "f1",
          .value = .9125,
          .low = .88,
          .high = .94,
          .n = 100};
  Cell compression = f1;
  compression.metric = "compression";
  compression.value = .839;
  compression.low = compression.high = std::nullopt;
  Cell macro = f1;
  macro.metric = "operator_macro_f1";
  macro.value = .7;
  macro.published = .806;
  return {f1, compression, macro};
}

TEST(TableLayoutTest, WritesValueRangeAndPublished) {
  const MetricColumn plain{"f1", "F1"}, ranged{"f1", "F1", NumberStyle::kShare, true};
  Cell cell = SomeCells()[0];
  EXPECT_EQ(FormatCell(cell, plain), "0.912");
  EXPECT_EQ(FormatCell(cell, ranged), "0.912 [0.880, 0.940]");
  cell.published = .916;
  EXPECT_EQ(FormatCell(cell, plain), "0.912 (0.916)");
  cell.stale = true;
  EXPECT_EQ(FormatCell(cell, plain), "0.912 (0.916)*");
  cell.value.reset();
  EXPECT_EQ(FormatCell(cell, ranged), "(0.916)*");
  EXPECT_EQ(FormatCell({.value = .839}, {"c", "cut", NumberStyle::kPercent}), "83.9 %");
}

TEST(TableLayoutTest, RowsComeFromKeysAndEmptyColumnsAreLeftOut) {
  const auto layout =
      std::find_if(Layouts().begin(), Layouts().end(), [](auto& l) { return l.table == "E3"; });
  const TextTable table = FillTable(*layout, SomeCells());
  EXPECT_EQ(table.header(), (std::vector<std::string>{"source", "view", "mode", "vocabulary",
                                                      "inputs", "cut", "F1", "op macro-F1"}));
  ASSERT_EQ(table.rows().size(), 1u);
  EXPECT_EQ(table.rows()[0],
            (std::vector<std::string>{"here", "combined", "structural", "256", "tokens", "83.9 %",
                                      "0.912 [0.880, 0.940]", "0.700 [0.880, 0.940] (0.806)"}));
}

TEST(MetricsFileTest, ReadsWhatItWrote) {
  const fs::path path =
      fs::temp_directory_path() / ("teller-metrics-" + std::to_string(::getpid()) + ".json");
  WriteMetrics(path,
               {.experiment = "x",
                .config_hash = "h",
                .provenance = {{"commit", "c"}},
                .cells = SomeCells(),
                .notes = {"n"}},
               true);
  const MetricsFile read = ReadMetrics(path);
  ASSERT_EQ(read.cells.size(), 3u);
  EXPECT_EQ(read.cells[0].value, .9125);  // to the last digit
  EXPECT_EQ(read.cells[0].row, SomeCells()[0].row);
  EXPECT_EQ(read.cells[2].published, .806);
  EXPECT_FALSE(read.cells[1].low.has_value());
  std::ofstream(path) << "{\"schema_name\":\"metrics\",\"schema_version\":\"2.0\"}";
  EXPECT_THROW(ReadMetrics(path), DataError);
  std::ofstream(path) << "not json";
  EXPECT_THROW(ReadMetrics(path), DataError);
  fs::remove(path);
}

TEST(ReportTest, DrawsEveryPointWithItsRange) {
  const std::string svg = TradeOffFigure(SomeCells());
  EXPECT_THAT(svg, HasSubstr("structural, tokens only"));
  EXPECT_THAT(svg, Not(HasSubstr("adjacency, tokens only")));
  EXPECT_THAT(svg, HasSubstr(">256</text>"));
  // 16.1 % kept on a logarithmic axis from 100 to .1: 66 + .26439 * 400; y of .9125: 62 + .0875 *
  // 300.
  EXPECT_THAT(svg, HasSubstr("cx=\"171.8\" cy=\"88.2\""));
  EXPECT_THAT(svg, HasSubstr("x1=\"171.8\" y1=\"98.0\" x2=\"171.8\" y2=\"80.0\""));
}

TEST(ReportTest, PublishedPointsStandInTheFigure) {
  std::vector<Cell> cells = TradeOff({});
  const std::string svg = TradeOffFigure(cells);
  EXPECT_THAT(svg, HasSubstr("published, horizontal"));
  EXPECT_THAT(svg, HasSubstr(">1024</text>"));
  EXPECT_EQ(Published("vertical", 512, "f1"), .636);
  EXPECT_FALSE(Published("combined", 256, "f1").has_value());
}

TEST(ReportTest, HostileTextIsEscaped) {
  const std::string html = HtmlReport(
      {.experiment = "<script>", .provenance = {{"a&b", "\"x\""}}, .cells = SomeCells()});
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(html, HasSubstr("a&amp;b"));
  EXPECT_EQ(EscapeXml("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
}

TEST(ReportTest, WritesEveryFormat) {
  const fs::path folder =
      fs::temp_directory_path() / ("teller-report-" + std::to_string(::getpid()));
  const auto written = WriteReport({.experiment = "x", .cells = SomeCells()}, folder);
  EXPECT_EQ(written.size(), 5u);
  for (const char* name :
       {"tables/E3.md", "tables/E3.csv", "tables/E3.tex", "trade_off.svg", "report.html"}) {
    EXPECT_TRUE(fs::is_regular_file(folder / name)) << name;
  }
  EXPECT_NO_THROW(WriteReport({.experiment = "x", .cells = SomeCells()}, folder));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace teller::experiment
