#include "src/diagnose/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/forest_generator.h"

namespace teller::diagnose {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Page {
  std::string text;
  nlohmann::json data;
};

Page MakePage(const dataset::StepsFile& steps, const HtmlOptions& options = {}) {
  Page page{ReportHtml(DiagnoseRun(steps, LocalizeWithin(steps, 0.1), nullptr), steps, options),
            {}};
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.text.find(mark) + mark.size();
  page.data =
      nlohmann::json::parse(page.text.substr(begin, page.text.find("</script>", begin) - begin));
  return page;
}

dataset::StepsFile FaultySteps() {
  testing_support::ForestOptions options{.seed = 3, .steps = 8, .outliers = 0};
  options.delays = {{.first_step = 3, .last_step = 5, .rank = RankId{1}, .delay_ns = 3'000'000}};
  return testing_support::GenerateRun(options);
}

TEST(ReportHtmlTest, HoldsTheForestsOfAbnormalStepsOnTheStepsClock) {
  const dataset::StepsFile steps = FaultySteps();
  const Page page = MakePage(steps);
  EXPECT_EQ(page.data["verdict"], "abnormal");
  ASSERT_EQ(page.data["steps"].size(), 2u);
  for (const auto& step : page.data["steps"]) {
    const auto& forest = step["forest"];
    const auto& recorded = steps.run.steps[step["step"].get<std::size_t>()];
    EXPECT_EQ(forest["symbol"].size(), recorded.nodes.size());
    EXPECT_EQ(forest["left_out"], 0);
    const int suspect = forest["suspect_nodes"][0];
    const int symbol = forest["symbol"][suspect];
    EXPECT_EQ(forest["symbols"][symbol], step["candidates"][0]["operator"]);
    // The second rank begins its step later; its nodes stand so much to the right.
    const auto track = forest["track"][suspect].get<std::size_t>();
    EXPECT_EQ(forest["tracks"][track][0], 1);
    const auto& node = recorded.nodes[static_cast<std::size_t>(suspect)];
    EXPECT_EQ(forest["begin"][suspect],
              recorded.rank_begin_ns[1] - recorded.begin_ns + node.begin_ns);
  }
  EXPECT_EQ(page.data["overview"]["step"].size(), 8u);
}

TEST(ReportHtmlTest, LeavesOutTheShortestAndSaysSo) {
  const Page page = MakePage(FaultySteps(), {.nodes = 40});
  const auto& forest = page.data["steps"][0]["forest"];
  EXPECT_LT(forest["symbol"].size(), 60u);
  EXPECT_GT(forest["left_out"].get<int>(), 0);
}

TEST(ReportHtmlTest, TextOfATraceCannotEndTheScript) {
  dataset::StepsFile steps = FaultySteps();
  for (auto& step : steps.run.steps)
    step.logs = {{RankId{1}, 0, "ERROR </script><script>alert(1)"}};
  const Page page = MakePage(steps, {.title = "<b>"});
  EXPECT_THAT(page.text, Not(HasSubstr("</script><script>alert")));
  EXPECT_EQ(page.data["title"], "<b>");
  const auto& logs = page.data["steps"][0]["forest"]["logs"];
  EXPECT_EQ(logs.size(), 8u);  // all steps are neighbours here
  EXPECT_EQ(logs[0][2], "ERROR </script><script>alert(1)");
  EXPECT_EQ(
      std::count_if(logs.begin(), logs.end(), [](const auto& line) { return line[3] == true; }), 1);
}

TEST(ReportHtmlTest, AHealthyRunShowsItsHighestStep) {
  const auto steps = testing_support::GenerateRun({.seed = 5, .steps = 6, .outliers = 0});
  const Page page = MakePage(steps);
  EXPECT_EQ(page.data["verdict"], "healthy");
  EXPECT_EQ(page.data["steps"].size(), 1u);
}

TEST(ReportHtmlTest, ARunWithoutStepsIsAPageToo) {
  EXPECT_EQ(MakePage({}).data["steps"].size(), 0u);
}

}  // namespace
}  // namespace teller::diagnose
