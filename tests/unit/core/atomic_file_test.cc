#include "src/core/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/core/error.h"
#include "src/core/hash.h"

namespace teller {
namespace {

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("teller-atomic-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(AtomicFileTest, LeavesNothingBehindWithoutCommit) {
  {
    AtomicFile file(folder_ / "a.txt");
    std::ofstream(file.path()) << "half";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(AtomicFileTest, RefusesToOverwriteWithoutForce) {
  WriteFileAtomically(folder_ / "a.txt", "one");
  EXPECT_THROW(WriteFileAtomically(folder_ / "a.txt", "two"), ConfigError);
  EXPECT_EQ(ReadFile(folder_ / "a.txt"), "one");
  WriteFileAtomically(folder_ / "a.txt", "two", /*force=*/true);
  EXPECT_EQ(ReadFile(folder_ / "a.txt"), "two");
}

TEST_F(AtomicFileTest, ReadFileRefusesFoldersMissingAndTooLarge) {
  EXPECT_THROW(ReadFile(folder_), DataError);
  EXPECT_THROW(ReadFile(folder_ / "none"), DataError);
  WriteFileAtomically(folder_ / "a.txt", "12345");
  EXPECT_THROW(ReadFile(folder_ / "a.txt", 4), DataError);
}

TEST_F(AtomicFileTest, AFifoIsRefusedAndNotWaitedFor) {
  const auto fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(ReadFile(fifo), DataError);
  EXPECT_THROW(HashFileHex(fifo), DataError);
  EXPECT_THROW(HashFileHex(folder_), DataError);
}

}  // namespace
}  // namespace teller
