#include "src/dataset/baseline_file.h"

#include <gmock/gmock.h>

#include <limits>

#include "src/core/error.h"
#include "src/dataset/baseline_schema.h"
#include "tests/support/schema_columns.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using localize::Measure;
using localize::RobustStat;

BaselineFile Example() {
  BaselineFile file;
  file.baseline.operators = {{"linear", trace::Layer::kBackend}, {"(any)", trace::Layer::kBackend}};
  file.baseline.rows = {{{0, Measure::kDuration, -1, -1, -1}, RobustStat{10, 0.5f, 40}},
                        {{0, Measure::kHostSelf, 3, 2, 1}, RobustStat{9, 0.25f, 30}}};
  file.baseline.operator_rows = {{0,
                                  Measure::kDuration,
                                  {RobustStat{1, 2, 3}, 10},
                                  {RobustStat{4, 5, 6}, 11},
                                  {RobustStat{12, 13, 14}, 15},
                                  {RobustStat{7, 8, 9}, 16},
                                  17}};
  file.baseline.channel_scale.assign(localize::kChannelCount, 0.5f);
  file.baseline.healthy_maxima = {1, 2, 4};
  file.inputs = {{"steps.h5", "aa"}};
  return file;
}

class BaselineFileTest : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
};

TEST_F(BaselineFileTest, ReadsWhatWasWritten) {
  WriteBaseline(folder_ / "b.h5", Example());
  const BaselineFile found = ReadBaseline(folder_ / "b.h5");
  EXPECT_EQ(found.baseline.operators, Example().baseline.operators);
  ASSERT_EQ(found.baseline.rows.size(), 2u);
  EXPECT_EQ(found.baseline.rows[1].key, Example().baseline.rows[1].key);
  EXPECT_EQ(found.baseline.rows[1].stat.spread, 0.25f);
  EXPECT_EQ(found.baseline.rows[0].stat.count, 40u);
  ASSERT_EQ(found.baseline.operator_rows.size(), 1u);
  EXPECT_EQ(found.baseline.operator_rows[0].typical.spread, 5);
  EXPECT_EQ(found.baseline.operator_rows[0].contrast.count, 9u);
  EXPECT_EQ(found.baseline.operator_rows[0].lower.tail, 15);
  EXPECT_EQ(found.baseline.operator_rows[0].node_tail, 17);
  EXPECT_EQ(found.baseline.channel_scale, Example().baseline.channel_scale);
  EXPECT_EQ(found.baseline.healthy_maxima, Example().baseline.healthy_maxima);
  EXPECT_EQ(found.inputs, Example().inputs);
}

TEST_F(BaselineFileTest, RefusesWhatWouldMislead) {
  const auto refused = [&](auto change) {
    BaselineFile file = Example();
    change(file.baseline);
    WriteBaseline(folder_ / "d.h5", file, /*force=*/true);
    EXPECT_THROW(ReadBaseline(folder_ / "d.h5"), DataError);
  };
  refused([](auto& b) { b.rows[0].key.op = 2; });
  refused([](auto& b) { std::swap(b.rows[0], b.rows[1]); });
  refused([](auto& b) { b.rows[0].stat.median = std::numeric_limits<float>::quiet_NaN(); });
  refused([](auto& b) { b.operator_rows[0].op = -1; });
  refused([](auto& b) { b.channel_scale.pop_back(); });
  refused([](auto& b) { b.healthy_maxima = {2, 1}; });
}

TEST_F(BaselineFileTest, DocumentHeaderAndFileAgree) {
  testing_support::ExpectDocumented("docs/schema/baseline.md", kBaselineColumns);
  WriteBaseline(folder_ / "b.h5", Example());
  testing_support::ExpectColumns(folder_ / "b.h5", kBaselineColumns);
  EXPECT_THROW(WriteBaseline(folder_ / "b.h5", Example()), ConfigError);
}

}  // namespace
}  // namespace teller::dataset
