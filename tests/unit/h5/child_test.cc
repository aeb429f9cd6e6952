#include "src/h5/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "src/core/error.h"

namespace teller::h5 {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const ChildLimits& limits, const std::function<std::string()>& body) {
  try {
    RunInChild("x.h5", limits, body);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

TEST(RunInChildTest, AnswersWhatTheBodyReturned) {
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  EXPECT_EQ(RunInChild("x.h5", {}, [&] { return large; }), large);
  EXPECT_EQ(RunInChild("x.h5", {}, [] { return std::string(); }), "");
}

TEST(RunInChildTest, ThrowsTheBodysErrorAgain) {
  auto fail = []() -> std::string { throw DataError("x.h5: /a is missing"); };
  EXPECT_EQ(MessageOf({}, fail), "x.h5: /a is missing");
  EXPECT_THROW(RunInChild("x.h5", {}, []() -> std::string { throw DeviceError("no"); }),
               DeviceError);
  EXPECT_THROW(RunInChild("x.h5", {}, []() -> std::string { throw CheckError("no"); }), CheckError);
}

TEST(RunInChildTest, ADeadChildIsOneLine) {
  EXPECT_THAT(MessageOf({},
                        []() -> std::string {
                          kill(getpid(), SIGKILL);
                          return "";
                        }),
              HasSubstr("x.h5: its reader crashed (Killed)"));
  EXPECT_THAT(MessageOf({}, []() -> std::string { _exit(7); }),
              HasSubstr("ended early (exit code 7)"));
}

TEST(RunInChildTest, AHangingChildIsEnded) {
  EXPECT_THAT(MessageOf({.wall_seconds = 1},
                        []() -> std::string {
                          while (true) pause();
                        }),
              HasSubstr("was not done after 1 s"));
}

TEST(RunInChildTest, ABusyChildIsEnded) {
  EXPECT_THAT(MessageOf({.cpu_seconds = 1, .wall_seconds = 60},
                        []() -> std::string {
                          volatile int work = 0;
                          while (true) work = work + 1;
                        }),
              HasSubstr("used more than 1 s of CPU"));
}

TEST(RunInChildTest, AGreedyChildIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the address-space limit is off under sanitizers";
#endif
  EXPECT_THAT(
      MessageOf({.memory_bytes = 64 << 20},
                [] { return std::to_string(std::vector<char>(std::size_t{1} << 30, 'x').size()); }),
      HasSubstr("more memory than allowed"));
}

}  // namespace
}  // namespace teller::h5
