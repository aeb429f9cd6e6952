#include "src/collect/log_follower.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace teller::collect {
namespace {

using testing_support::TemporaryFolder;

void Append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(LogFollowerTest, GivesWholeLinesWithTheirOffsets) {
  const TemporaryFolder folder;
  LogFollower follower(folder / "log");
  std::vector<FollowedLine> lines;
  follower.Poll(lines);  // not there yet
  Append(folder / "log", "first\nsec");
  follower.Poll(lines);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "first");
  Append(folder / "log", "ond\r\n\nlast");
  follower.Finish(lines);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].text, "second");
  EXPECT_EQ(lines[1].offset, 6u);
  EXPECT_EQ(lines[2].text, "");
  EXPECT_EQ(lines[3].text, "last");
  EXPECT_EQ(lines[3].offset, 15u);  // 'first\n' 6, 'second\r\n' 8, '\n' 1
  EXPECT_GT(lines[0].realtime_ns, 0);
}

TEST(LogFollowerTest, CutsALineThatNeverEnds) {
  const TemporaryFolder folder;
  LogFollower follower(folder / "log");
  Append(folder / "log", std::string(LogFollower::kMaxLineBytes * 2 + 5, 'x'));
  std::vector<FollowedLine> lines;
  follower.Finish(lines);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text.size(), LogFollower::kMaxLineBytes);
  EXPECT_EQ(lines[2].text, "xxxxx");
}

TEST(LogFollowerTest, FollowsThroughRotation) {
  const TemporaryFolder folder;
  LogFollower follower(folder / "log");
  std::vector<FollowedLine> lines;
  Append(folder / "log", "old 1\n");
  follower.Poll(lines);
  Append(folder / "log", "old 2\ntorn");
  std::filesystem::rename(folder / "log", folder / "log.1");
  Append(folder / "log", "new 1\n");
  follower.Poll(lines);
  follower.Finish(lines);
  std::vector<std::string> texts;
  for (const FollowedLine& line : lines) texts.push_back(line.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"old 1", "old 2", "torn", "new 1"}));
  EXPECT_EQ(lines[3].offset, 0u);
}

TEST(LogFollowerTest, FollowsThroughTruncation) {
  const TemporaryFolder folder;
  LogFollower follower(folder / "log");
  std::vector<FollowedLine> lines;
  Append(folder / "log", "a long first line\n");
  follower.Poll(lines);
  std::filesystem::resize_file(folder / "log", 0);
  Append(folder / "log", "again\n");
  follower.Poll(lines);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].text, "again");
  EXPECT_EQ(lines[1].offset, 0u);
}

TEST(LogFollowerTest, MasksSecrets) {
  const TemporaryFolder folder;
  LogFollower follower(folder / "log");
  Append(folder / "log", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\n");
  std::vector<FollowedLine> lines;
  follower.Poll(lines);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text.find("hf_abc"), std::string::npos);
}

}  // namespace
}  // namespace teller::collect
