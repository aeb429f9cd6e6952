#include "src/collect/log_process.h"

#include <gtest/gtest.h>

namespace teller::collect {
namespace {

trace::ProcessInfo Process(const std::string& node, uint32_t pid, int32_t rank) {
  trace::ProcessInfo info;
  info.node = node;
  info.pid = pid;
  info.rank = RankId{rank};
  return info;
}

TEST(LogProcessTest, TakesTheProcessThatTheLineNames) {
  LogProcess owners;
  owners.Add(0, Process("node0", 11, -1));
  owners.Add(1, Process("node0", 222, 0));
  owners.Add(2, Process("node1", 222, 1));
  EXPECT_EQ(owners.Of("node0", "(EngineCore pid=11) INFO started"), 0);
  EXPECT_EQ(owners.Of("node1", "(Worker_TP1 pid=222) ready"), 2);
  EXPECT_EQ(owners.Of("", "(Worker pid=222) whose node is not known"), -1);
  EXPECT_EQ(owners.Of("node0", "[11] main: hello"), 0);
}

TEST(LogProcessTest, ElseTheOnlyRankElseTheOnlyProcess) {
  LogProcess owners;
  owners.Add(0, Process("node0", 1, -1));
  owners.Add(1, Process("node0", 2, 0));
  owners.Add(2, Process("node1", 3, -1));
  owners.Add(3, Process("node2", 4, 1));
  owners.Add(4, Process("node2", 5, 2));
  EXPECT_EQ(owners.Of("node0", "plain"), 1);
  EXPECT_EQ(owners.Of("node1", "plain"), 2);
  EXPECT_EQ(owners.Of("node2", "plain"), -1);
  EXPECT_EQ(owners.Of("node3", "plain"), -1);
  EXPECT_EQ(owners.Of("node1", "batch of pid=99999999999 is no process"), 2);
}

}  // namespace
}  // namespace teller::collect
