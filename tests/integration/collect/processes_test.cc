// Processes of every kind attach by themselves, and are left as they would be without us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

const std::string kProgram = std::string(TELLER_BINARY_DIR) + "/tests/nvtx_program";
const std::string kUserTool = std::string(TELLER_BINARY_DIR) + "/tests/libuser_tool.so";

class ProcessesTest : public ::testing::Test {
 protected:
  Collected Collect(const std::string& command) {
    const Ran ran = RunShell(CollectLine(File(), "--force", command));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    Collected collected(File());
    EXPECT_EQ(collected.Stat("dropped_no_segment"), 0);
    return collected;
  }
  std::filesystem::path File() const { return folder_ / "t.h5"; }

  TemporaryFolder folder_;
};

TEST_F(ProcessesTest, ThousandsOfShortThreads) {
  const Collected collected = Collect(kProgram + " short_threads 3000");
  EXPECT_EQ(collected.Named("outer").size(), 3000u);
  EXPECT_EQ(collected.Stat("dropped_other"), 0);
}

TEST_F(ProcessesTest, ThirtyTwoAtOnceThatEndByUnderscoreExit) {
  const Collected collected = Collect(kProgram + " processes 32 100");
  std::map<uint32_t, std::size_t> sizes;
  for (std::size_t i = 0; i < collected.events.size(); ++i)
    sizes[collected.reader.processes()[i].pid] += collected.events[i].size();
  EXPECT_EQ(collected.Named("inner").size(), 32u * 50);
  int whole = 0;
  for (const auto& [pid, size] : sizes) whole += size == 150 ? 1 : 0;
  EXPECT_EQ(whole, 32);
}

TEST_F(ProcessesTest, OneThatBecomesADaemon) {
  EXPECT_THAT(Collect(kProgram + " daemon").CountByName(),
              UnorderedElementsAre(Pair("outer", 15), Pair("inner", 15), Pair("single", 15)));
}

TEST_F(ProcessesTest, OneInASessionOfItsOwn) {
  EXPECT_EQ(Collect("setsid --wait " + kProgram + " pairs 4").Named("inner").size(), 2u);
}

TEST_F(ProcessesTest, OneThatClosesEveryDescriptor) {
  const Collected collected = Collect(kProgram + " closed");
  EXPECT_EQ(collected.Named("inner").size(), 2u * 10000 + 5);
}

TEST_F(ProcessesTest, EveryWayInWhichPythonStartsThem) {
  const std::string python = TELLER_PYTHON;
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no Python at " << python;
  for (const std::string method : {"fork", "spawn", "forkserver"}) {
    SCOPED_TRACE(method);
    const Collected collected = Collect(python + " " + TELLER_SOURCE_DIR +
                                        "/tests/integration/collect/nvtx_program.py " + method);
    EXPECT_THAT(collected.CountByName(),
                UnorderedElementsAre(Pair("work a", 1), Pair("work b", 1), Pair("work c", 1),
                                     Pair("work d", 1)));
  }
}

TEST_F(ProcessesTest, WhatWasPreloadedBeforeStaysPreloaded) {
  const Ran ran = RunShell("LD_PRELOAD=" + kUserTool + " " +
                           CollectLine(File(), "", "grep -c libuser_tool.so /proc/self/maps"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_GE(std::stoi(ran.out), 1);
}

// A tool of the user that CUDA would have loaded is loaded first; where it takes CUPTI, it keeps
// it.
TEST_F(ProcessesTest, ToolsOfCudaThatWereThereBeforeComeFirst) {
  const std::string fakes = std::string(TELLER_BINARY_DIR) + "/tests/fake_cuda";
  const Ran ran = RunShell("CUDA_INJECTION64_PATH=" + kUserTool + " " +
                           CollectLine(File(), "",
                                       "env LD_LIBRARY_PATH=" + fakes + " " + TELLER_BINARY_DIR +
                                           "/tests/cuda_program 1 1 1 1"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("another tool holds CUPTI"));
}

}  // namespace
}  // namespace teller::testing_support
