#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CollectCommandTest : public ::testing::Test {
 protected:
  Ran Collect(const std::string& command, const std::string& options = "") {
    return RunShell(CollectLine(File(), "--force " + options, command));
  }
  std::filesystem::path File() const { return folder_ / "trace.h5"; }

  TemporaryFolder folder_;
};

TEST_F(CollectCommandTest, PassesOutputThroughByteForByteAndRecordsItsLines) {
  const Ran ran = Collect(R"(sh -c 'printf "a\000b\ntorn"; printf "\377 error\n" >&2')");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, std::string("a\0b\ntorn", 8));
  EXPECT_EQ(ran.err, "\377 error\n");
  const Collected collected(File());
  EXPECT_TRUE(collected.reader.complete());
  EXPECT_EQ(collected.reader.ReadLogs().size(), 3u);
}

TEST_F(CollectCommandTest, AnswersTheCommandsOwnExitCode) {
  EXPECT_EQ(Collect("sh -c 'exit 7'").exit_code, 7);
  EXPECT_EQ(Collect("sh -c 'kill -TERM $$'").exit_code, 128 + 15);
}

TEST_F(CollectCommandTest, TellsAnAbsentCommandFromOneThatMayNotBeExecuted) {
  const Ran absent = Collect("/no/such/program");
  EXPECT_EQ(absent.exit_code, 127);
  EXPECT_THAT(absent.err, HasSubstr("'/no/such/program'"));
  std::ofstream(folder_ / "plain") << "text";
  EXPECT_EQ(Collect((folder_ / "plain").string()).exit_code, 126);
}

TEST_F(CollectCommandTest, RefusesBadInputBeforeAnythingStarts) {
  std::ofstream(File()) << "there";
  const Ran exists = RunShell(CollectLine(File(), "", "echo started"));
  EXPECT_EQ(exists.exit_code, 2);
  EXPECT_THAT(exists.err, HasSubstr("exists already"));
  EXPECT_THAT(exists.out, IsEmpty());
  EXPECT_EQ(Collect("true", "--level most").exit_code, 2);
  EXPECT_EQ(Collect("true", "--sources ebpf").exit_code, 2);
  EXPECT_EQ(RunShell(CollectLine("/no/such/folder/t.h5", "", "true")).exit_code, 2);
  EXPECT_EQ(
      RunShell("TELLER_AGENT_LIBRARY=/nowhere " + CollectLine(File(), "--force", "true")).exit_code,
      4);
  EXPECT_EQ(RunShell(std::string(TELLER_BINARY_DIR) +
                     "/bin/teller collect --control status --run-id no-such-run")
                .exit_code,
            2);
}

TEST_F(CollectCommandTest, PassesSignalsOn) {
  const Ran ran = RunShell(
      CollectLine(
          File(), "",
          "sh -c 'trap \"echo got it; exit 3\" TERM; echo ready; while :; do sleep 0.05; done'") +
      " > " + (folder_ / "o").string() + " & pid=$!; until grep -q ready " +
      (folder_ / "o").string() +
      "; do sleep 0.05; done; kill -TERM $pid; wait $pid; code=$?; cat " +
      (folder_ / "o").string() + "; exit $code");
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_EQ(ran.out, "ready\ngot it\n");
}

// The target writes 10 MB after the collector is gone, ends by itself, and its output is whole.
TEST_F(CollectCommandTest, LetsTheTargetGoOnWhenTheCollectorIsKilled) {
  const std::string out = (folder_ / "o").string(), done = (folder_ / "done").string();
  const Ran ran = RunShell(
      CollectLine(File(), "--run-id killed-collector",
                  "sh -c 'echo ready; sleep 0.5; head -c 10000000 /dev/zero; echo end; echo $? > " +
                      done + "'") +
      " > " + out + " & pid=$!; until grep -q ready " + out +
      "; do sleep 0.02; done; kill -9 $pid; " + "wait $pid; until [ -s " + done +
      " ]; do sleep 0.02; done; cat " + done);
  EXPECT_EQ(ran.out, "0\n");
  for (int i = 0; i < 100 && std::filesystem::file_size(out) < 10'000'010; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(std::filesystem::file_size(out), 10'000'010u);  // 'ready\n', the zeros, 'end\n'
  EXPECT_TRUE(std::filesystem::exists("/dev/shm/teller-killed-collector"));
  EXPECT_EQ(RunShell(std::string(TELLER_BINARY_DIR) + "/bin/teller restore").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/teller-killed-collector"));
}

TEST_F(CollectCommandTest, GivesTheTargetATerminalWhereItHasOneItself) {
  const std::string inner =
      CollectLine(File(), "", "sh -c \"test -t 1 && test -t 2 && echo terminal; stty size <&1\"");
  const Ran ran = RunShell("script -qec '" + inner + "' /dev/null </dev/null");
  EXPECT_THAT(ran.out, HasSubstr("terminal\r\n"));
  const Ran without = Collect("sh -c 'test -t 1 || echo none'");
  EXPECT_EQ(without.out, "none\n");
}

TEST_F(CollectCommandTest, LeavesNothingBehind) {
  const Ran ran = Collect("true", "--run-id leaves-nothing");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/teller-leaves-nothing"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename(), "trace.h5");
  }
}

TEST_F(CollectCommandTest, CountsProcessesThatHaveNothingToSay) {
  EXPECT_EQ(Collect("sh -c 'ls / | cat | wc -l >/dev/null'").exit_code, 0);
  const Collected collected(File());
  EXPECT_TRUE(collected.reader.processes().empty());
  EXPECT_EQ(collected.Stat("silent_processes"), 3);  // ls, cat, wc; shells are left alone
}

TEST_F(CollectCommandTest, LetsGoOfProcessesThatEnd) {
  const Ran ran =
      RunShell("ulimit -n 64; " +
               CollectLine(File(), "", "sh -c 'for i in $(seq 200); do /bin/true; done'"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(Collected(File()).Stat("silent_processes"), 201);
}

}  // namespace
}  // namespace teller::testing_support
