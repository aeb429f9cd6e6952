#include "src/agent/hit_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "src/agent/state.h"

namespace teller::agent {

namespace {

/// The pool's path with '.hits' for '.pool'.
bool HitLogPath(char* path, std::size_t size) noexcept {
  const std::size_t stem = strlen(g_state->pool_path) - strlen(".pool");
  return snprintf(path, size, "%.*s.hits", static_cast<int>(stem), g_state->pool_path) <
         static_cast<int>(size);
}

void* CreateFileMapping(const char* path) noexcept {
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return MAP_FAILED;
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, sizeof(TellerHitRing)) == 0) {
    memory = mmap(nullptr, sizeof(TellerHitRing), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) unlink(path);
  return memory;
}

}  // namespace

bool OpenHitLog() noexcept {
  if (g_state->hits.load(std::memory_order_acquire) != nullptr) return true;
  char path[sizeof g_state->pool_path];
  if (!HitLogPath(path, sizeof path)) return false;
  void* memory = CreateFileMapping(path);
  if (memory == MAP_FAILED) return false;
  madvise(memory, sizeof(TellerHitRing), MADV_DONTFORK);
  TellerHitRing* ring = static_cast<TellerHitRing*>(memory);
  ring->abi_version = TELLER_ABI_VERSION;
  ring->pid = g_state->pool->pid;
  ring->rank = g_state->pool->rank;
  memcpy(ring->node, g_state->pool->node, sizeof ring->node);
  __atomic_store_n(&ring->magic, TELLER_HITS_MAGIC, __ATOMIC_RELEASE);
  g_state->hits.store(ring, std::memory_order_release);
  return true;
}

void LogHit(TellerHit hit) noexcept {
  TellerHitRing* ring = g_state->hits.load(std::memory_order_acquire);
  if (ring == nullptr) return;
  uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
  do {
    if (head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= TELLER_HIT_SLOTS) {
      __atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELAXED);
      return;
    }
  } while (!__atomic_compare_exchange_n(&ring->head, &head, head + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  const Thread* thread = CurrentThread();
  hit.tid = thread == nullptr ? KernelThreadId() : thread->tid;
  hit.rank = g_state->pool->rank;
  hit.ticket = 0;
  TellerHit& slot = ring->slots[head % TELLER_HIT_SLOTS];
  memcpy(reinterpret_cast<char*>(&slot) + sizeof hit.ticket,
         reinterpret_cast<const char*>(&hit) + sizeof hit.ticket, sizeof hit - sizeof hit.ticket);
  __atomic_store_n(&slot.ticket, head + 1, __ATOMIC_RELEASE);
}

}  // namespace teller::agent
