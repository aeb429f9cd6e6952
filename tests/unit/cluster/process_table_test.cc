#include "src/cluster/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace teller::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

ProcessStat Stat(pid_t pid, pid_t parent, char state = 'S') {
  ProcessStat stat;
  stat.pid = pid;
  stat.parent = parent;
  stat.state = state;
  return stat;
}

TEST(ProcessTableTest, NamesLiveDescendantsAndLooksThroughZombies) {
  const std::vector<ProcessStat> table = {Stat(10, 1), Stat(11, 10, 'Z'), Stat(12, 11),
                                          Stat(13, 1)};
  EXPECT_THAT(DescendantsIn(table, 10), ElementsAre(12));
}

TEST(ProcessTableTest, EndsWherePidsReusedMeanwhileMakeParentsACircle) {
  const std::vector<ProcessStat> table = {Stat(10, 12), Stat(11, 10), Stat(12, 11), Stat(11, 12)};
  EXPECT_THAT(DescendantsIn(table, 10), UnorderedElementsAre(11, 12));
}

TEST(ProcessTableTest, AKilledProcessIsEndingALiveOneIsNot) {
  EXPECT_FALSE(IsEnding(getpid()));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(IsEnding(child));
  kill(child, SIGKILL);
  // Pending first, then on its way out, then a zombie that has gone it.
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(IsEnding(child)) << i;
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsEnding(child));
}

}  // namespace
}  // namespace teller::cluster
