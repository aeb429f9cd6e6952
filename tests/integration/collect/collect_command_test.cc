#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::string kProgram = std::string(TELLER_BINARY_DIR) + "/tests/nvtx_program";
const std::string kForever = "timeout 1.5 " + kProgram + " forever";
constexpr int64_t kFloodRecords = 300000;  // of 200,000 pairs, every other with one inside

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

TEST_F(CollectCommandTest, GivesTheTargetATerminalWhereItHasOneItself) {
  const std::string inner =
      CollectLine(File(), "", "sh -c \"test -t 1 && test -t 2 && echo terminal; stty size <&1\"");
  const Ran ran = RunShell("script -qec '" + inner + "' /dev/null </dev/null");
  EXPECT_THAT(ran.out, HasSubstr("terminal\r\n"));
  const Ran without = Collect("sh -c 'test -t 1 || echo none'");
  EXPECT_EQ(without.out, "none\n");
}

// Lines of one process that come 0.2 s apart are so in the trace, however late they are read.
TEST_F(CollectCommandTest, StampsLinesAsTheyArrive) {
  const Ran ran = Collect("sh -c 'for i in 1 2 3 4; do echo $i; sleep 0.2; done'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto lines = Collected(File()).reader.ReadLogs();
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_GE(lines[i].read_ns - lines[i - 1].read_ns, 190'000'000);
    EXPECT_EQ(lines[i].offset, 2 * i);
  }
}

TEST_F(CollectCommandTest, FollowsLogFilesByPattern) {
  std::ofstream(folder_ / "a.log") << "old\n";
  const std::string a = (folder_ / "a.log").string(), b = (folder_ / "b.log").string();
  const Ran ran = Collect("sh -c 'echo new >> " + a + "; mv " + a + " " + a + ".1; echo next > " +
                              a + "; echo late > " + b + "'",
                          "--follow '" + (folder_ / "*.log").string() + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  std::map<std::string, std::vector<std::string>> by_file;
  for (const trace::LogLine& line : collected.reader.ReadLogs())
    by_file[std::string(collected.Text(line.file))].push_back(line.text);
  EXPECT_EQ(by_file[a], (std::vector<std::string>{"new", "next"}));
  EXPECT_EQ(by_file[b], (std::vector<std::string>{"late"}));
}

TEST_F(CollectCommandTest, StopsRecordingWhenTheTimeIsOver) {
  const Ran ran = RunShell(CollectLine(File(), "--duration 0.5", kForever) + " > /dev/null");
  EXPECT_EQ(ran.exit_code, 124) << ran.err;  // of timeout
  const auto events = Collected(File()).Named("single");
  EXPECT_LT(events.back().end_ns - events.front().begin_ns, 1'000'000'000);
}

TEST_F(CollectCommandTest, StopsRecordingAtTheLargestSize) {
  // The size is looked at while the target runs: a pause lets that happen before the second flood.
  const std::string floods =
      "sh -c '" + kProgram + " pairs 200000 && sleep 1 && " + kProgram + " pairs 200000'";
  const Ran ran = RunShell(CollectLine(File(), "--max-size 1MB", floods) + " > /dev/null");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("recording stopped at --max-size"));
  const Collected collected(File());
  EXPECT_EQ(collected.Stat("stopped_at_max_size"), 1);
  EXPECT_GE(collected.Stat("records"), 1'000'000 / 64);
  EXPECT_LE(collected.Stat("records"), kFloodRecords);  // of the first flood alone
}

TEST_F(CollectCommandTest, SwitchesARunningTargetOnAndOff) {
  const std::string control =
      std::string(TELLER_BINARY_DIR) + "/bin/teller collect --run-id switched --control ";
  const Ran ran =
      RunShell(CollectLine(File(), "--run-id switched --level off", kForever) + " > " +
               (folder_ / "o").string() + " & pid=$!; until [ -s " + (folder_ / "o").string() +
               " ]; do sleep 0.02; done; sleep 0.3; " + control + "status; " + control +
               "on --level ranges; sleep 0.3; " + control + "off --json; wait $pid");
  EXPECT_THAT(ran.out, HasSubstr("run switched: level off, 1 processes"));
  EXPECT_THAT(ran.out, HasSubstr("run switched: level ranges"));
  EXPECT_THAT(ran.out, HasSubstr("\"level\":\"off\""));
  const auto events = Collected(File()).Named("single");
  ASSERT_FALSE(events.empty());
  EXPECT_LT(events.back().end_ns - events.front().begin_ns, 900'000'000);
}

TEST_F(CollectCommandTest, RecordsOnlyTheSourcesAskedFor) {
  const std::string pairs = std::string(TELLER_BINARY_DIR) + "/tests/nvtx_program pairs 10";
  EXPECT_EQ(Collect(pairs, "--sources torch").exit_code, 0);
  EXPECT_TRUE(Collected(File()).CountByName().empty());
  EXPECT_EQ(Collect(pairs, "--sources nvtx,torch").exit_code, 0);
  EXPECT_FALSE(Collected(File()).CountByName().empty());
}

TEST_F(CollectCommandTest, SeveralHostsShareARunAndProbeEachOthersClocks) {
  const std::string second = (folder_ / "second.h5").string();
  std::filesystem::create_directory(folder_ / "run");
  const std::string meet = " --rendezvous 127.0.0.1:" + std::to_string(20'000 + getpid() % 9'000);
  const Ran ran = RunShell("export TELLER_NODE=alpha; " +
                           CollectLine(File(), "--run-id two-hosts" + meet, "sleep 1.5") +
                           " & sleep 0.3; export TELLER_NODE=beta; " +
                           CollectLine(second, "--run-dir " + (folder_ / "run").string() + meet,
                                       kProgram + " pairs 10") +
                           "; code=$?; wait; exit $code");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(second);
  EXPECT_EQ(collected.reader.meta().run_id, "two-hosts");
  EXPECT_EQ(collected.reader.processes().at(0).node, "beta");
  const auto probes = collected.reader.ReadProbes();
  ASSERT_FALSE(probes.empty());
  EXPECT_EQ(probes[0].from, "beta");
  EXPECT_EQ(probes[0].to, "alpha");
  const std::string all = (folder_ / "all.h5").string();
  const Ran merged = RunShell(std::string(TELLER_BINARY_DIR) + "/bin/teller import " +
                              File().string() + " " + second + " -o " + all);
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_FALSE(Collected(all).reader.ReadProbes().empty());
}

TEST_F(CollectCommandTest, SaysWhyItCannotEnterAProgram) {
  // A program of another architecture: an ELF header that says so.
  const std::string foreign = (folder_ / "foreign").string();
  std::filesystem::copy_file("/bin/true", foreign);
  std::fstream(foreign, std::ios::in | std::ios::out | std::ios::binary).seekp(18).put('\xb7');
  const Ran other = Collect(foreign);
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_THAT(other.err, HasSubstr("is 64-bit aarch64, the agent library"));
  const Ran no_library = RunShell("TELLER_AGENT_LIBRARY=" + (folder_ / "a.txt").string() + " " +
                                  CollectLine(File(), "--force", "true"));
  EXPECT_EQ(no_library.exit_code, 4);
  std::ofstream(folder_ / "a.txt") << "text";
  const Ran text = RunShell("TELLER_AGENT_LIBRARY=" + (folder_ / "a.txt").string() + " " +
                            CollectLine(File(), "--force", "true"));
  EXPECT_EQ(text.exit_code, 4);
  EXPECT_THAT(text.err, HasSubstr("not a library"));
}

TEST_F(CollectCommandTest, RecordsOnlyTheOutputOfAStaticProgram) {
  const Ran ran = Collect(std::string(TELLER_BINARY_DIR) + "/tests/static_program");
  EXPECT_EQ(ran.exit_code, 3) << ran.err;
  EXPECT_EQ(ran.out, "static\n");
  EXPECT_THAT(ran.err, HasSubstr("is statically linked: only its output is recorded"));
  EXPECT_EQ(Collected(File()).reader.ReadLogs().size(), 1u);
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
