#include "src/agent/state.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/agent/segments.h"

namespace teller::agent {

State* g_state;
Thread* g_threads;
constinit thread_local Thread* t_thread __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

pthread_key_t thread_key;

void* MapWipedOnFork(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTDUMP);
  if (madvise(memory, bytes, MADV_WIPEONFORK) == 0) return memory;
  munmap(memory, bytes);
  return nullptr;
}

/// Runs where a thread ends in an orderly way; where it does not, its segment is drained when the
/// process is gone.
void OnThreadExit(void* value) {
  Thread* thread = static_cast<Thread*>(value);
  if (thread->tid == 0) return;  // wiped by a fork
  KeepSpareSegment(thread);
  t_thread = nullptr;
  thread->tid = 0;
  thread->in_use.store(0, std::memory_order_release);
}

}  // namespace

void SpinLock::lock() noexcept {
  while (taken_.exchange(1, std::memory_order_acquire) != 0) sched_yield();
}

bool AllocateState() noexcept {
  if (g_state != nullptr) return true;
  if (pthread_key_create(&thread_key, OnThreadExit) != 0) return false;
  g_threads = static_cast<Thread*>(MapWipedOnFork(sizeof(Thread) * kMaxThreads));
  if (g_threads == nullptr) return false;
  g_state = static_cast<State*>(MapWipedOnFork(sizeof(State)));
  return g_state != nullptr;
}

uint32_t KernelThreadId() noexcept { return static_cast<uint32_t>(syscall(SYS_gettid)); }

Thread* NewThread() noexcept {
  if (g_state == nullptr || g_state->ready.load(std::memory_order_acquire) == 0) return nullptr;
  const ErrnoKeeper errno_keeper;
  const uint32_t tid = KernelThreadId();
  for (uint32_t i = 0; i < kMaxThreads; ++i) {
    Thread& thread = g_threads[(tid + i) % kMaxThreads];
    uint32_t free = 0;
    if (!thread.in_use.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    thread.next = nullptr;
    thread.left = 0;
    thread.segment = nullptr;
    thread.retry_ticks = 0;
    thread.range_depth = thread.ranges_too_deep = thread.operator_depth = 0;
    thread.operators_numbered = 0;
    thread.busy = false;
    thread.tid = tid;
    pthread_setspecific(thread_key, &thread);
    t_thread = &thread;
    return &thread;
  }
  CountDrop(TELLER_DROP_OTHER);
  return nullptr;
}

void CountDrop(TellerDropReason reason) noexcept {
  if (g_state == nullptr || g_state->pool == nullptr) return;
  __atomic_fetch_add(&g_state->pool->dropped[reason], 1, __ATOMIC_RELAXED);
}

ErrnoKeeper::ErrnoKeeper() noexcept : saved_(errno) {}
ErrnoKeeper::~ErrnoKeeper() { errno = saved_; }

}  // namespace teller::agent
