#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

struct Counts {
  uint64_t before = 0, after = 0, killed = 0;
};

Counts ReadCounts(const std::filesystem::path& path) {
  Counts counts;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&counts), sizeof counts);
  return counts;
}

/// Every record that was counted as lost, by any reason.
int64_t Losses(const Collected& collected) {
  int64_t losses = 0;
  for (const trace::Stat& stat : collected.reader.ReadStats()) {
    if (stat.severity == trace::Severity::kDataLoss && stat.unit == "events") losses += stat.count;
  }
  return losses;
}

// before >= file + counted losses >= after: what was written is there or counted, and nothing is
// there twice.
TEST(StressTest, LosesNothingUncountedWhileProcessesAreKilled) {
  const TemporaryFolder folder;
  const std::string counts_file = (folder / "counts").string();
  for (const int seed : {1, 2}) {
    std::filesystem::remove(counts_file);
    const Ran ran = RunShell(CollectLine(folder / "t.h5", "--force",
                                         std::string(TELLER_BINARY_DIR) + "/tests/stress_program " +
                                             counts_file + " 3 6 4 " + std::to_string(seed)));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Counts counts = ReadCounts(counts_file);
    const Collected collected(folder / "t.h5");
    int64_t in_file = 0;
    for (const auto& [name, count] : collected.CountByName()) in_file += count;
    const int64_t accounted = in_file + Losses(collected);
    EXPECT_GT(counts.killed, 10u);
    EXPECT_GT(counts.after, 20'000u);
    EXPECT_GE(static_cast<int64_t>(counts.before), accounted) << "seed " << seed;
    EXPECT_GE(accounted, static_cast<int64_t>(counts.after)) << "seed " << seed;
  }
}

TEST(StressTest, CollectsThirtyTwoProcessesAtOnce) {
  const TemporaryFolder folder;
  const Ran ran =
      RunShell(CollectLine(folder / "t.h5", "",
                           "sh -c 'for i in $(seq 32); do " + std::string(TELLER_BINARY_DIR) +
                               "/tests/nvtx_program pairs 2000 & done; wait'"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(folder / "t.h5");
  EXPECT_EQ(collected.CountByName().at("single"), 32 * 1000);
  EXPECT_EQ(Losses(collected), 0);
}

}  // namespace
}  // namespace teller::testing_support
