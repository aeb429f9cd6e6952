#include "src/experiment/overhead_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {

using testing_support::TemporaryFolder;

OverheadConfig Config() {
  OverheadConfig config{.name = "test"};
  OverheadWorkload workload{.workload = config::Node::Parse("kind: command", "w.yaml")};
  workload.name = "w";
  workload.concurrency = {1};
  config.workloads.push_back(workload);
  return config;
}

StretchMeasure Stretch(WatchMode mode, int start, int block, double tpot_ns) {
  return {.workload = "w",
          .concurrency = 1,
          .mode = mode,
          .start = start,
          .block = block,
          .tpot_ns = tpot_ns,
          .ttft_ns = 2 * tpot_ns,
          .tokens_per_s = 1e9 / tpot_ns};
}

const Cell& Find(const std::vector<Cell>& cells, const std::string& mode,
                 const std::string& metric) {
  for (const Cell& cell : cells) {
    if (cell.row.at("mode") == mode && cell.metric == metric) return cell;
  }
  throw DataError(mode + " " + metric);
}

// Blocks differ by a factor of two in speed, the level costs 10 % in each: the ratio within blocks
// is exact, though the medians of all stretches lie apart by something else.
TEST(OverheadReportTest, ComparesALevelWithOffOfTheSameBlock) {
  std::vector<StretchMeasure> stretches;
  for (int block = 0; block < 6; ++block) {
    const double off_ns = block % 2 == 0 ? 1e6 : 2e6;
    stretches.push_back(Stretch(WatchMode::kOff, 0, block, off_ns));
    if (block > 0) stretches.push_back(Stretch(WatchMode::kFull, 0, block, 1.1 * off_ns));
  }
  const std::vector<Cell> cells = OverheadCells(Config(), stretches);
  const Cell& ratio = Find(cells, "full", "tpot_ratio");
  EXPECT_NEAR(*ratio.value, 1.1, 1e-9);
  EXPECT_NEAR(*ratio.low, 1.1, 1e-9);
  EXPECT_NEAR(*ratio.high, 1.1, 1e-9);
  EXPECT_EQ(ratio.n, 5);
  EXPECT_NEAR(*Find(cells, "full", "tokens_ratio").value, 1 / 1.1, 1e-9);
  EXPECT_NEAR(*Find(cells, "full", "tpot_ms").value, 2.2, 1e-9);  // of 2.2 1.1 2.2 1.1 2.2
}

TEST(OverheadReportTest, ComparesOffWithTheNeighbouringStartThatIsNotAttached) {
  std::vector<StretchMeasure> stretches;
  for (int start = 0; start < 3; ++start) {
    for (int block = 0; block < 4; ++block) {
      stretches.push_back(Stretch(WatchMode::kNotAttached, start, block, 1e6 * (start + 1)));
      stretches.push_back(Stretch(WatchMode::kOff, start, block, 1.02e6 * (start + 1)));
    }
  }
  const std::vector<Cell> cells = OverheadCells(Config(), stretches);
  const Cell& ratio = Find(cells, "off", "tpot_ratio");
  EXPECT_NEAR(*ratio.value, 1.02, 1e-9);
  EXPECT_EQ(ratio.n, 3);
  EXPECT_EQ(ratio.row.at("against"), "not attached");
  EXPECT_THAT(OverheadTable(cells), testing::HasSubstr("1.0200 [1.0200, 1.0200]"));
  EXPECT_THAT(OverheadFigure(cells), testing::HasSubstr("</svg>"));
}

TEST(OverheadReportTest, AnEmptyStretchIsNoNumber) {
  const double nan = std::nan("");
  const std::vector<Cell> cells = OverheadCells(
      Config(), {Stretch(WatchMode::kOff, 0, 0, 1e6), Stretch(WatchMode::kFull, 0, 0, nan)});
  EXPECT_FALSE(Find(cells, "full", "tpot_ratio").value.has_value());
  EXPECT_FALSE(Find(cells, "off", "tpot_ratio").value.has_value());  // nothing not attached
}

TEST(OverheadConfigTest, FitsIntoALimitAndRefusesWhatItCannotCompare) {
  const TemporaryFolder folder;
  std::ofstream(folder / "e.yaml")
      << "schema_version: 1\nworkloads:\n  - name: a\n    workload: "
         "{kind: command}\n    blocks: 100\n    modes: ['off', full]\n";
  OverheadConfig config = LoadOverhead(folder / "e.yaml", {}, "/tmp/p");
  EXPECT_GT(config.EstimatedSeconds(), 1000);
  config.FitInto(200);
  EXPECT_LE(config.EstimatedSeconds(), 200);
  EXPECT_GE(config.workloads[0].blocks, 3);
  EXPECT_THROW(config.KeepOnly("b"), ConfigError);
  std::ofstream(folder / "f.yaml") << "schema_version: 1\nworkloads:\n  - name: a\n    workload: "
                                      "{kind: command}\n    modes: [full]\n";
  EXPECT_THROW(LoadOverhead(folder / "f.yaml", {}, "/tmp/p"), ConfigError);
}

TEST(OverheadConfigTest, ThePublishedExperimentIsReadable) {
  const OverheadConfig config = LoadOverhead(
      std::filesystem::path(TELLER_SOURCE_DIR) / "experiments/tracing_overhead.yaml", {}, "/tmp/p");
  ASSERT_EQ(config.workloads.size(), 2u);
  EXPECT_EQ(config.workloads[0].concurrency, (std::vector<int64_t>{1, 8, 32}));
  EXPECT_EQ(config.workloads[1].concurrency, (std::vector<int64_t>{1, 8}));
}

}  // namespace
}  // namespace teller::experiment
