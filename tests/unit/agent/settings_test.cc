#include "src/agent/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace teller::agent {
namespace {

TEST(RankOfTitleTest, ReadsTheTensorParallelRankOfAWorker) {
  EXPECT_EQ(RankOfTitle("VLLM::Worker_TP1"), 1);
  EXPECT_EQ(RankOfTitle("VLLM::Worker_TP0"), 0);
  EXPECT_EQ(RankOfTitle("VLLM::Worker_DP0_TP3"), 3);
  EXPECT_EQ(RankOfTitle("VLLM::Worker_PP0_TP2"), 2);
}

TEST(RankOfTitleTest, IsUnknownWhereTheTitleDoesNotSettleIt) {
  EXPECT_EQ(RankOfTitle("VLLM::EngineCore"), -1);
  EXPECT_EQ(RankOfTitle("python serve.py"), -1);
  EXPECT_EQ(RankOfTitle("VLLM::Worker_PP1_TP0"), -1);  // the size of TP is not known here
  EXPECT_EQ(RankOfTitle("python run.py Worker_TP1"), -1);
  EXPECT_EQ(RankOfTitle("Worker_"), -1);
  EXPECT_EQ(RankOfTitle("Worker_TP"), -1);
}

TEST(ProcessIdentityTest, IsReadFromProc) {
  EXPECT_GT(ProcessStartTicks(), 0u);
  EXPECT_NE(PidNamespace(), 0u);
  char command[8];
  CommandLine(command, sizeof command);
  EXPECT_EQ(command[7], 0);
  EXPECT_NE(command[0], 0);
}

}  // namespace
}  // namespace teller::agent
