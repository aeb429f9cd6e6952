// A runner that is going to be killed: makes a cluster, starts processes that start processes,
// stops one of them, says 'ready' and waits. usage: cluster_victim RUN_ID MODE
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "src/cluster/cluster.h"
#include "src/cluster/journal.h"

using namespace teller::cluster;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Mode mode = std::string(argv[2]) == "loopback" ? Mode::kLoopback : Mode::kNamespaces;
  const auto cluster = Cluster::Create(
      {.run_id = argv[1], .nodes = {{.name = "node0"}, {.name = "node1"}}, .mode = mode});
  std::puts("made");
  std::fflush(stdout);
  // A grandchild in a session of its own, as an engine's workers are.
  const auto first =
      cluster->node(0).Spawn({.argv = {"sh", "-c", "setsid sleep 1000 & sleep 1000"}});
  const auto second = cluster->node(1).Spawn({.argv = {"sleep", "1000"}});
  cluster->journal().RecordProcess(Change::kStopped, second->pid());
  second->Signal(SIGSTOP);
  std::puts("ready");
  std::fflush(stdout);
  pause();
}
