#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

const std::string kProgram = std::string(TELLER_BINARY_DIR) + "/tests/nvtx_program";

class NvtxTest : public ::testing::Test {
 protected:
  Collected Collect(const std::string& arguments, const std::string& options = "",
                    int exit_code = 0) {
    const Ran ran = RunShell(CollectLine(File(), "--force " + options, kProgram + " " + arguments));
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    return Collected(File());
  }
  std::filesystem::path File() const { return folder_ / "trace.h5"; }

  TemporaryFolder folder_;
};

TEST_F(NvtxTest, RecordsEveryPairWithItsNesting) {
  const Collected collected = Collect("pairs 20000");
  EXPECT_THAT(
      collected.CountByName(),
      UnorderedElementsAre(Pair("outer", 10000), Pair("inner", 10000), Pair("single", 10000)));
  const auto outer = collected.Named("outer"), inner = collected.Named("inner");
  for (std::size_t i = 0; i < outer.size(); ++i) {
    ASSERT_LE(outer[i].begin_ns, inner[i].begin_ns);
    ASSERT_GE(outer[i].end_ns, inner[i].end_ns);
    ASSERT_EQ(outer[i].layer, trace::Layer::kEngine);
    ASSERT_EQ(outer[i].kind, trace::Kind::kRange);
  }
}

TEST_F(NvtxTest, RecordsEveryThread) {
  const Collected collected = Collect("threads 6 3000");
  EXPECT_EQ(collected.CountByName().at("outer"), 6 * 1500);
  std::map<uint32_t, int> by_track;
  for (const trace::Event& event : collected.Named("single")) ++by_track[event.track];
  EXPECT_EQ(by_track.size(), 6u);
}

TEST_F(NvtxTest, GivesForkedAndSpawnedChildrenAProcessOfTheirOwn) {
  const Collected collected = Collect("fork");
  std::vector<std::size_t> sizes;
  for (const trace::EventTable& table : collected.events) sizes.push_back(table.size());
  // The parent's one range, 10 pairs of the forked child (15 ranges), 20 pairs of the executed one
  // (30). The child that executes says nothing until then, so it is only counted.
  EXPECT_THAT(sizes, UnorderedElementsAre(1u, 15u, 30u));
  EXPECT_EQ(collected.Stat("silent_processes"), 1);
}

TEST_F(NvtxTest, SurvivesExecutingAnotherImage) {
  const Collected collected = Collect("exec");
  std::vector<std::size_t> sizes;
  for (const trace::EventTable& table : collected.events) sizes.push_back(table.size());
  EXPECT_THAT(sizes, UnorderedElementsAre(9u, 12u));
}

TEST_F(NvtxTest, UnderstandsDomainsRegisteredAndWideStringsMarksAndStartEnd) {
  const Collected collected = Collect("everything");
  EXPECT_THAT(collected.CountByName(),
              UnorderedElementsAre(Pair("registered", 1), Pair("wide \u00e4\u20ac", 1),
                                   Pair("mark", 1), Pair("start end", 1), Pair("", 1)));
  const trace::Event range = collected.Named("start end").at(0);
  EXPECT_EQ(range.kind, trace::Kind::kStartEnd);
  EXPECT_NE(range.flags & trace::kFlagOtherThreadEnd, 0);
  const trace::Event mark = collected.Named("mark").at(0);
  EXPECT_EQ(mark.begin_ns, mark.end_ns);
  EXPECT_EQ(collected.Stat("unbalanced_pop"), 1);
  EXPECT_EQ(collected.Stat("unknown_range_end"), 1);
}

TEST_F(NvtxTest, UnderstandsWideStringsEverywhere) {
  EXPECT_THAT(Collect("wide").CountByName(),
              UnorderedElementsAre(Pair("wide mark", 1), Pair("wide start", 1),
                                   Pair("wide \U0001F600 message", 1), Pair("wide registered", 1)));
}

TEST_F(NvtxTest, KeepsDomainsApartAndPassesCategoriesColoursAndPlainPayloadsOver) {
  const Collected collected = Collect("domains");
  EXPECT_THAT(collected.CountByName(),
              UnorderedElementsAre(Pair("same", 2), Pair("started in a domain", 1),
                                   Pair("marked in a domain", 1)));
  const auto same = collected.Named("same");
  EXPECT_GE(same[0].end_ns - same[0].begin_ns, 2'000'000);
  EXPECT_GE(same[1].end_ns - same[1].begin_ns, 4'000'000);
  EXPECT_LT(same[0].end_ns, same[1].end_ns);
  EXPECT_EQ(collected.Stat("unbalanced_pop"), 0);
}

TEST_F(NvtxTest, ReadsPayloadsOfStaticSchemasAndPassesUnknownOnesOver) {
  const Collected collected = Collect("payload");
  const trace::Event reduce = collected.Named("reduce(Max)").at(0);
  EXPECT_EQ(reduce.layer, trace::Layer::kComm);
  EXPECT_EQ(collected.Text(reduce.comm), "0xabc");
  EXPECT_EQ(reduce.bytes, 2048);
  EXPECT_EQ(collected.Named("of unknown layout").at(0).layer, trace::Layer::kEngine);
}

// Range ids are a process's own: the parent's range stays open, the child's end is counted.
TEST_F(NvtxTest, CountsTheEndOfARangeThatAnotherProcessStarted) {
  const Collected collected = Collect("across");
  EXPECT_NE(collected.Named("across processes").at(0).flags & trace::kFlagOpen, 0);
  EXPECT_EQ(collected.Named("in the child").size(), 1u);
  EXPECT_EQ(collected.Stat("unknown_range_end"), 1);
}

TEST_F(NvtxTest, RecordsThePythonPackage) {
  const std::string python = TELLER_PYTHON;
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no Python at " << python;
  const Ran ran = RunShell(CollectLine(
      File(), "",
      python + " " + TELLER_SOURCE_DIR + "/tests/integration/collect/nvtx_program.py annotate"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  EXPECT_THAT(collected.CountByName(),
              UnorderedElementsAre(Pair("with", 1), Pair("in a domain", 1), Pair("decorated", 1),
                                   Pair("started", 1), Pair("marked", 1)));
  EXPECT_EQ(collected.Named("started").at(0).kind, trace::Kind::kStartEnd);
}

TEST_F(NvtxTest, SaysOneLineOfAToolThatWasThereBefore) {
  const Ran ran = RunShell("NVTX_INJECTION64_PATH=/opt/other/tool.so " +
                           CollectLine(File(), "", kProgram + " pairs 2"));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, testing::HasSubstr("NVTX takes one tool: /opt/other/tool.so is not loaded"));
  EXPECT_EQ(Collected(File()).Named("single").size(), 1u);
}

TEST_F(NvtxTest, RecordsRangesThatAreOpenAtExit) {
  const Collected collected = Collect("open");
  EXPECT_THAT(collected.CountByName(),
              UnorderedElementsAre(Pair("started, not ended", 1), Pair("pushed, not popped", 1),
                                   Pair("pushed elsewhere", 1), Pair("popped", 1)));
  for (const char* name : {"started, not ended", "pushed, not popped", "pushed elsewhere"}) {
    const trace::Event range = collected.Named(name).at(0);
    EXPECT_NE(range.flags & trace::kFlagOpen, 0) << name;
    EXPECT_GE(range.end_ns - range.begin_ns, 50'000'000) << name;
  }
  EXPECT_EQ(collected.Named("popped").at(0).flags & trace::kFlagOpen, 0);
}

TEST_F(NvtxTest, ReadsThePayloadsOfNccl) {
  const std::string library = TELLER_NCCL_LIBRARY;
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "no NCCL in the wheel: " << library;
  const Ran ran = RunShell(
      "LD_LIBRARY_PATH=" + std::string(TELLER_CUDA_LIBRARIES) + " " +
      CollectLine(File(), "", std::string(TELLER_BINARY_DIR) + "/tests/nccl_program " + library));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  const trace::Event reduce = collected.Named("ncclAllReduce(op 2)").at(0);
  EXPECT_EQ(reduce.layer, trace::Layer::kComm);
  EXPECT_EQ(reduce.kind, trace::Kind::kCollective);
  EXPECT_EQ(reduce.bytes, 4000);
  EXPECT_EQ(collected.Text(reduce.comm), "0x0");  // no communicator without a GPU
  const trace::Event send = collected.Named("ncclSend").at(0);
  EXPECT_EQ(send.kind, trace::Kind::kPointToPoint);
  EXPECT_EQ(send.bytes, 40);
  EXPECT_EQ(send.peer, 3);
  EXPECT_EQ(collected.Named("ncclRecv").at(0).peer, 2);
  EXPECT_EQ(collected.Named("ncclAllGather").at(0).bytes, 400);
  EXPECT_EQ(collected.Named("ncclReduceScatter(op 0)").at(0).bytes, 800);
  EXPECT_EQ(collected.Named("ncclBroadcast").at(0).kind, trace::Kind::kCollective);
}

TEST_F(NvtxTest, RecordsNothingWhenOffOrNotAskedFor) {
  EXPECT_TRUE(Collect("pairs 100", "--level off").CountByName().empty());
  EXPECT_TRUE(Collect("pairs 100", "--sources torch").CountByName().empty());
}

// Everything that the target had written when it was killed stands in the file: it says how many
// pairs were done before.
TEST_F(NvtxTest, KeepsEverythingOfAKilledTarget) {
  const std::string said = (folder_ / "said").string();
  const Ran ran =
      RunShell(CollectLine(File(), "", "sh -c 'echo $$; exec " + kProgram + " forever'") + " > " +
               said + " & collector=$!; until [ $(wc -l < " + said +
               ") -gt 20 ]; do sleep 0.02; done; "
               "kill -9 $(head -n1 " +
               said + "); wait $collector; code=$?; tail -n1 " + said + "; exit $code");
  EXPECT_EQ(ran.exit_code, 128 + 9);
  const int said_pairs = std::stoi(ran.out);
  const Collected collected(File());
  EXPECT_TRUE(collected.reader.complete());
  const int recorded_pairs =
      collected.CountByName().at("outer") + collected.CountByName().at("single");
  EXPECT_GE(recorded_pairs, said_pairs);
  EXPECT_LE(recorded_pairs, said_pairs + 100);
  EXPECT_EQ(collected.Stat("dropped_no_segment"), 0);
}

TEST_F(NvtxTest, CanBeSwitchedWhileItRuns) {
  const std::string said = (folder_ / "said").string();
  const std::string control =
      std::string(TELLER_BINARY_DIR) + "/bin/teller collect --run-id switched --json --control ";
  const Ran ran = RunShell(
      CollectLine(File(), "--run-id switched --level off",
                  "sh -c 'echo $$; exec " + kProgram + " forever'") +
      " > " + said + " & collector=$!; lines() { wc -l < " + said +
      "; }; until [ $(lines) -gt 20 ]; do sleep 0.02; done; " + control +
      "on; n=$(lines); until [ $(lines) -gt $((n + 20)) ]; do sleep 0.02; done; " + control +
      "off; kill -9 $(head -n1 " + said + "); wait $collector; cat " + said + " | tail -n1");
  EXPECT_THAT(ran.out, testing::HasSubstr(R"("level":"full")"));
  EXPECT_THAT(ran.out, testing::HasSubstr(R"("level":"off")"));
  const Collected collected(File());
  const int recorded = collected.CountByName()["outer"] + collected.CountByName()["single"];
  EXPECT_GE(recorded, 1500);  // of the 20 or more hundreds between on and off
  const int said_pairs = std::stoi(ran.out.substr(ran.out.rfind('\n', ran.out.size() - 2) + 1));
  EXPECT_LT(recorded, said_pairs - 1500);  // those before it was on are not there
  EXPECT_EQ(collected.Stat("unbalanced_pop"), 0);
}

}  // namespace
}  // namespace teller::testing_support
