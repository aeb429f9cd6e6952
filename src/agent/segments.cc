#include "src/agent/segments.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "src/agent/clock.h"
#include "src/agent/settings.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace teller::agent {

namespace {

constexpr uint32_t kFirstNameBytes = 65536;
constexpr uint32_t kGrowStep = 16;  // segments
constexpr int kMaxPoolsOfOneStart =
    64;  // exec keeps pid and start time: the next image takes the next number
constexpr uint64_t kRetryTicks = 200000;  // about 0.1 ms between searches for a free segment

/// Claims memory for a part of the pool file. By path, since targets close descriptors they do not
/// know.
bool ClaimFileMemory(uint64_t offset, uint64_t bytes) noexcept {
  const int file = open(g_state->pool_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const int error = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  close(file);
  if (error != 0) return false;
  // Maps the pages now rather than by a fault in the target's hot path; where the kernel is too old
  // it is only slower.
  madvise(reinterpret_cast<char*>(g_state->pool) + offset, bytes, MADV_POPULATE_WRITE);
  return true;
}

int OpenNewPoolFile(char* path, std::size_t size) noexcept {
  const Settings& settings = LoadSettings();
  const unsigned long long start = ProcessStartTicks();
  for (int n = 0; n < kMaxPoolsOfOneStart; ++n) {
    char suffix[16] = "";
    if (n > 0) snprintf(suffix, sizeof suffix, "-%d", n);
    snprintf(path, size, "%s/%d-%llu%s.pool", settings.run_dir, getpid(), start, suffix);
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

void* MapPoolFile(int file) noexcept {
  if (ftruncate(file, static_cast<off_t>(TELLER_POOL_FILE_BYTES)) != 0) return MAP_FAILED;
  if (posix_fallocate(file, 0, TELLER_POOL_NAMES_OFFSET + kFirstNameBytes) != 0) return MAP_FAILED;
  return mmap(nullptr, TELLER_POOL_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

/// No room for the pool: an empty file 'PID-START.refused' instead tells the collector, who counts
/// it.
void LeaveRefusedMark(const char* pool_path) noexcept {
  unlink(pool_path);
  char path[sizeof g_state->pool_path];
  const std::size_t stem = strlen(pool_path) - strlen(".pool");
  snprintf(path, sizeof path, "%.*s.refused", static_cast<int>(stem), pool_path);
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) close(file);
}

void FillHeader(TellerPoolHeader* pool) noexcept {
  const Settings& settings = LoadSettings();
  pool->abi_version = TELLER_ABI_VERSION;
  pool->pid = static_cast<uint32_t>(getpid());
  pool->ppid = static_cast<uint32_t>(getppid());
  pool->start_ticks = ProcessStartTicks();
  pool->ticks_per_second = g_ticks_are_tsc ? 1 : 0;
  pool->pid_namespace = PidNamespace();
  CommandLine(pool->command, sizeof pool->command);
  pool->rank = settings.rank >= 0 ? settings.rank : RankOfTitle(pool->command);
  memcpy(pool->node, settings.node, sizeof pool->node);
  memcpy(pool->host, settings.host, sizeof pool->host);
}

uint32_t CountFree(uint32_t segment_count) noexcept {
  uint32_t free = 0;
  for (uint32_t i = 0; i < segment_count; ++i) {
    const uint32_t state = __atomic_load_n(&g_state->segments[i].header.state, __ATOMIC_RELAXED);
    free += state == TELLER_SEGMENT_FREE ? 1 : 0;
  }
  return free;
}

void UseSegment(Thread* thread, TellerSegment* segment) noexcept {
  const uint32_t count = segment->header.count;
  segment->header.tid = thread->tid;
  segment->header.owner = Now();
  thread->segment = segment;
  thread->next = segment->records + count;
  thread->left = TELLER_SEGMENT_RECORDS - count;
}

TellerSegment* TakeSpare() noexcept {
  for (auto& spare : g_state->spares) {
    if (spare.load(std::memory_order_relaxed) == nullptr) continue;
    if (TellerSegment* segment = spare.exchange(nullptr, std::memory_order_acquire)) return segment;
  }
  return nullptr;
}

TellerSegment* TakeFree() noexcept {
  const uint32_t count = __atomic_load_n(&g_state->pool->segment_count, __ATOMIC_ACQUIRE);
  if (count == 0) return nullptr;
  const uint32_t first = g_state->segment_hint.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = (first + i) % count;
    TellerSegment* segment = &g_state->segments[index];
    uint32_t expected = TELLER_SEGMENT_FREE;
    if (__atomic_load_n(&segment->header.state, __ATOMIC_RELAXED) != TELLER_SEGMENT_FREE) continue;
    if (!__atomic_compare_exchange_n(&segment->header.state, &expected, TELLER_SEGMENT_WRITING,
                                     false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      continue;
    }
    // The reader has set consumed and count to 0 before FREE.
    g_state->segment_hint.store(index + 1, std::memory_order_relaxed);
    return segment;
  }
  return nullptr;
}

/// Wakes the collector when a quarter of the pool has been filled since the last time.
void RingDoorbell() noexcept {
  if (g_state->taken_since_bell.fetch_add(1, std::memory_order_relaxed) + 1 <
      TELLER_POOL_SEGMENTS / 4)
    return;
  g_state->taken_since_bell.store(0, std::memory_order_relaxed);
  __atomic_fetch_add(&g_state->pool->doorbell, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &g_state->pool->doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void LeaveFullSegment(Thread* thread) noexcept {
  if (thread->segment == nullptr) return;
  __atomic_store_n(&thread->segment->header.state, TELLER_SEGMENT_FULL, __ATOMIC_RELEASE);
  __atomic_fetch_add(&g_state->pool->written, TELLER_SEGMENT_RECORDS, __ATOMIC_RELAXED);
  thread->segment = nullptr;
  RingDoorbell();
}

}  // namespace

bool CreatePool() noexcept {
  const int file = OpenNewPoolFile(g_state->pool_path, sizeof g_state->pool_path);
  if (file < 0) return false;
  void* memory = MapPoolFile(file);
  close(file);
  if (memory == MAP_FAILED) {
    LeaveRefusedMark(g_state->pool_path);
    return false;
  }
  madvise(memory, TELLER_POOL_FILE_BYTES, MADV_DONTFORK);
  char* bytes = static_cast<char*>(memory);
  g_state->pool = static_cast<TellerPoolHeader*>(memory);
  g_state->names = bytes + TELLER_POOL_NAMES_OFFSET;
  g_state->segments = reinterpret_cast<TellerSegment*>(bytes + TELLER_POOL_SEGMENTS_OFFSET);
  g_state->name_bytes_backed.store(kFirstNameBytes, std::memory_order_relaxed);
  FillHeader(g_state->pool);
  WriteClockTriple();
  return true;
}

void GrowPool(uint32_t free_wanted) noexcept {
  g_state->grow_lock.lock();
  TellerPoolHeader* pool = g_state->pool;
  uint32_t count = pool->segment_count;
  uint32_t free = CountFree(count);
  while (free < free_wanted && count < TELLER_POOL_SEGMENTS) {
    const uint64_t offset = TELLER_POOL_SEGMENTS_OFFSET + uint64_t{count} * TELLER_SEGMENT_BYTES;
    if (!ClaimFileMemory(offset, uint64_t{kGrowStep} * TELLER_SEGMENT_BYTES)) break;
    count += kGrowStep;
    free += kGrowStep;
    __atomic_store_n(&pool->segment_count, count, __ATOMIC_RELEASE);
  }
  g_state->grow_lock.unlock();
}

bool BackNameTable(uint32_t bytes) noexcept {
  if (bytes > TELLER_NAME_TABLE_BYTES) return false;
  const uint32_t backed = g_state->name_bytes_backed.load(std::memory_order_relaxed);
  if (bytes <= backed) return true;
  uint32_t wanted = backed;
  while (wanted < bytes)
    wanted = wanted * 2 < TELLER_NAME_TABLE_BYTES ? wanted * 2 : TELLER_NAME_TABLE_BYTES;
  if (!ClaimFileMemory(TELLER_POOL_NAMES_OFFSET + uint64_t{backed}, wanted - backed)) return false;
  g_state->name_bytes_backed.store(wanted, std::memory_order_relaxed);
  return true;
}

bool TakeSegment(Thread* thread) noexcept {
  if (g_state == nullptr || g_state->ready.load(std::memory_order_acquire) == 0 || thread->busy)
    return false;
  const ErrnoKeeper errno_keeper;
  thread->busy = true;
  LeaveFullSegment(thread);
  const uint64_t now = Now();
  TellerSegment* segment = nullptr;
  if (now >= thread->retry_ticks) {
    segment = TakeSpare();
    if (segment == nullptr) segment = TakeFree();
    if (segment == nullptr && g_state->pool->segment_count < TELLER_POOL_SEGMENTS) {
      GrowPool(kFirstSegments);
      segment = TakeFree();
    }
    thread->retry_ticks = segment == nullptr ? now + kRetryTicks : 0;
  }
  if (segment != nullptr) UseSegment(thread, segment);
  thread->busy = false;
  return segment != nullptr;
}

void KeepSpareSegment(Thread* thread) noexcept {
  TellerSegment* segment = thread->segment;
  if (segment == nullptr) return;
  thread->segment = nullptr;
  if (thread->left > 0) {
    for (auto& spare : g_state->spares) {
      TellerSegment* none = nullptr;
      if (spare.compare_exchange_strong(none, segment, std::memory_order_release)) return;
    }
  }
  __atomic_store_n(&segment->header.state, TELLER_SEGMENT_FULL, __ATOMIC_RELEASE);
}

void WriteClockTriple() noexcept {
  TellerPoolHeader* pool = g_state->pool;
  const uint32_t head = pool->clock_head;
  pool->clock[head % TELLER_CLOCK_TRIPLES] = ReadClocks();
  __atomic_store_n(&pool->clock_head, head + 1, __ATOMIC_RELEASE);
  const TellerClockTriple& first = pool->clock[0];
  if (head == 0 || head >= TELLER_CLOCK_TRIPLES || pool->ticks_per_second == 0) return;
  const TellerClockTriple& last = pool->clock[head];
  const double elapsed_ns = static_cast<double>(last.monotonic_ns - first.monotonic_ns);
  if (elapsed_ns <= 0) return;
  pool->ticks_per_second =
      static_cast<uint64_t>(static_cast<double>(last.ticks - first.ticks) * 1e9 / elapsed_ns);
}

}  // namespace teller::agent
