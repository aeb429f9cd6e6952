// What happens when the library is loaded and when its process forks.
#include <errno.h>
#include <pthread.h>

#include <cstring>

#include "src/agent/background.h"
#include "src/agent/open_ranges.h"
#include "src/agent/settings.h"
#include "src/agent/state.h"

namespace teller::agent {

namespace {

/// Programs whose work is to start others: nothing of theirs is to be seen, and what they execute
/// attaches by itself. A second thread would cost them (exec and exit wait for it), and to those
/// that enter namespaces of users or times the kernel refuses it.
bool OnlyStartsOthers() noexcept {
  constexpr const char* kPrograms[] = {
      "sh",     "dash",  "bash",      "zsh",       "ksh",     "busybox", "env",
      "xargs",  "make",  "timeout",   "nice",      "chrt",    "taskset", "numactl",
      "setsid", "nohup", "stdbuf",    "time",      "unshare", "nsenter", "ip",
      "bwrap",  "sudo",  "newuidmap", "newgidmap", "setpriv"};
  for (const char* program : kPrograms) {
    if (strcmp(program_invocation_short_name, program) == 0) return true;
  }
  return false;
}

void BeforeFork() { LockLoaderForFork(); }
void AfterForkInParent() { UnlockLoaderAfterFork(); }

/// The kernel has wiped g_state and every Thread; the child is a process of its own.
void AfterForkInChild() {
  UnlockLoaderAfterFork();
  t_thread = nullptr;
  if (AttachProcess()) StartBackground();
}

__attribute__((constructor)) void OnLoad() {
  if (OnlyStartsOthers() || !AttachProcess()) return;
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  StartBackground();
}

/// Workers that end by _exit or a signal never come here.
__attribute__((destructor)) void OnUnload() {
  if (g_state == nullptr || g_state->ready.load() == 0) return;
  WriteOpenRanges();
  __atomic_store_n(&g_state->pool->exited, 1, __ATOMIC_RELEASE);
}

}  // namespace

}  // namespace teller::agent
