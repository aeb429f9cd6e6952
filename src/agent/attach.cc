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

/// The kernel refuses namespaces of users and times to a process with more than one thread, so in
/// programs whose work is to enter them we stay away; what they execute attaches by itself.
bool ChangesNamespaces() noexcept {
  constexpr const char* kPrograms[] = {"unshare", "nsenter",   "ip",
                                       "bwrap",   "newuidmap", "newgidmap"};
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
  if (ChangesNamespaces() || !AttachProcess()) return;
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
