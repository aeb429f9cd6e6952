#include "src/collect/log_gatherer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "src/core/clock.h"
#include "tests/support/temporary_folder.h"

namespace teller::collect {
namespace {

using namespace std::chrono_literals;
using testing_support::TemporaryFolder;

void Append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::vector<SpooledLine> Lines(const LineSpool& spool) {
  std::vector<SpooledLine> lines;
  spool.ForEachBlock(
      [&](const auto& block) { lines.insert(lines.end(), block.begin(), block.end()); });
  return lines;
}

void WaitForBytes(const LogGatherer& gatherer, uint64_t bytes) {
  for (int i = 0; i < 500 && gatherer.bytes() < bytes; ++i) std::this_thread::sleep_for(10ms);
}

TEST(LogGathererTest, FollowsFilesByPatternThroughRotationWithoutReadingTwice) {
  const TemporaryFolder folder;
  Append(folder / "a.log", "from before\n");
  LogGatherer gatherer(folder / "lines");
  gatherer.AddPattern((folder / "*.log*").string());
  Append(folder / "a.log", "one\n");
  WaitForBytes(gatherer, 1);
  std::filesystem::rename(folder / "a.log", folder / "a.log.1");  // matches too, is the same file
  Append(folder / "a.log", "two\n");
  Append(folder / "late.log", "three\n");
  std::this_thread::sleep_for(300ms);
  gatherer.Stop();
  std::map<std::string, std::vector<std::string>> by_file;
  for (const SpooledLine& line : Lines(gatherer.lines()))
    by_file[std::filesystem::path(line.file).filename()].push_back(line.text);
  EXPECT_EQ(by_file["a.log"], (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(by_file["late.log"], (std::vector<std::string>{"three"}));
  EXPECT_EQ(by_file.size(), 2u);
}

TEST(LogGathererTest, OffsetsCountFromTheFilesOwnBegin) {
  const TemporaryFolder folder;
  Append(folder / "a.log", "from before\n");
  LogGatherer gatherer(folder / "lines");
  gatherer.AddPattern((folder / "a.log").string());
  Append(folder / "a.log", "one\n");
  gatherer.Stop();
  const std::vector<SpooledLine> lines = Lines(gatherer.lines());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].offset, 12u);
}

// A look every 20 ms would stamp lines 10 ms late on average; woken, the median is far below.
TEST(LogGathererTest, StampsALineWhenItIsWritten) {
  const TemporaryFolder folder;
  Append(folder / "a.log", "");
  LogGatherer gatherer(folder / "lines");
  gatherer.AddFile("", "a", folder / "a.log");
  std::this_thread::sleep_for(50ms);
  std::vector<int64_t> written_ns;
  for (int i = 0; i < 21; ++i) {
    written_ns.push_back(MonotonicNs());
    Append(folder / "a.log", "line\n");
    std::this_thread::sleep_for(7ms);
  }
  gatherer.Stop();
  const std::vector<SpooledLine> lines = Lines(gatherer.lines());
  ASSERT_EQ(lines.size(), written_ns.size());
  std::vector<int64_t> late_ns;
  for (std::size_t i = 0; i < lines.size(); ++i)
    late_ns.push_back(lines[i].read_ns - written_ns[i]);
  std::ranges::sort(late_ns);
  EXPECT_GE(late_ns.front(), 0);
  EXPECT_LT(late_ns[10], 7'000'000);
}

TEST(LogFollowerTest, TakesTheRelaysStamps) {
  const TemporaryFolder folder;
  const LogStamp stamps[] = {{6, 1000, 5000}, {16, 2000, 6000}};
  std::ofstream(folder / "stamps", std::ios::binary)
      .write(reinterpret_cast<const char*>(stamps), sizeof stamps);
  Append(folder / "log", "first\nsec");
  Append(folder / "log", "ond\nlast");
  LogFollower follower(folder / "log", {.stamps = folder / "stamps"});
  std::vector<FollowedLine> lines;
  follower.Finish(lines);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].read_ns, 1000);
  EXPECT_EQ(lines[0].realtime_ns, 5000);
  EXPECT_EQ(lines[1].read_ns, 2000);  // when its last byte came
  EXPECT_GT(lines[2].read_ns, 6000);  // beyond the stamps: now
}

TEST(LineSpoolTest, GoesOnBehindWhatIsThere) {
  const TemporaryFolder folder;
  LineSpool(folder / "lines").Append({{1, 2, 3, "node0", "stdout", std::string("a\0b", 3)}});
  LineSpool second(folder / "lines");
  second.Append({{4, 5, 6, "", "stderr", ""}});
  const std::vector<SpooledLine> lines = Lines(second);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, std::string("a\0b", 3));
  EXPECT_EQ(lines[0].node, "node0");
  EXPECT_EQ(lines[1].offset, 6u);
}

TEST(LineSpoolTest, StopsAtALineThatIsNotWhole) {
  const TemporaryFolder folder;
  LineSpool(folder / "lines").Append({{1, 2, 3, "n", "f", "whole"}, {1, 2, 3, "n", "f", "torn"}});
  std::filesystem::resize_file(folder / "lines", std::filesystem::file_size(folder / "lines") - 2);
  EXPECT_EQ(Lines(LineSpool(folder / "lines")).size(), 1u);
}

}  // namespace
}  // namespace teller::collect
