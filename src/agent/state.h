#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "src/abi/control.h"
#include "src/abi/pool.h"

namespace teller::agent {

// ---- What hooks have to do now: one word, so that "nothing" costs one load

inline constexpr uint32_t kRecordNvtx = 1u << 0;
inline constexpr uint32_t kRecordScopes = 1u << 1;     ///< torch user scopes and collectives
inline constexpr uint32_t kRecordOperators = 1u << 2;  ///< torch operators
inline constexpr uint32_t kRecordDevice = 1u << 3;     ///< the CPU device runtime
inline constexpr uint32_t kRecordCupti = 1u << 4;
inline constexpr uint32_t kWholeGraphs = 1u << 5;   ///< CUPTI: a graph launch is one record
inline constexpr uint32_t kTieCalls = 1u << 6;      ///< operators are numbered and named to CUPTI
inline constexpr uint32_t kRecordShapes = 1u << 7;  ///< operators keep the shapes of their inputs
/// Bit of a delay at the start, or at the end, of calls of a TellerTarget.
constexpr uint32_t DelayAtStartBit(uint32_t target) { return 1u << (8 + target); }
constexpr uint32_t DelayAtEndBit(uint32_t target) { return 1u << (16 + target); }
inline constexpr uint32_t kTargetCount = 7;

// ---- Sizes

inline constexpr uint32_t kMaxThreads = 4096;    ///< alive at once
inline constexpr uint32_t kMaxRangeDepth = 256;  ///< of NVTX push/pop, per thread over all domains
inline constexpr uint32_t kMaxOperatorDepth = 128;  ///< of torch records, per thread
inline constexpr uint32_t kNameCacheSlots = 512;
inline constexpr uint32_t kNameIndexSlots = 1u << 18;
inline constexpr uint32_t kMaxNames = 1u << 17;
inline constexpr uint32_t kMaxNameBytes = 4096;  ///< longer names are cut
inline constexpr uint32_t kMaxOpenRanges = 1u << 16;
inline constexpr uint32_t kNameTableFull = 0;  ///< the first name of every table

// ---- Per thread

/// A thread's cache of interned names, by the address of the text; the text is compared as well,
/// since addresses are used again.
/// Small, so that a thread's cache lies on few pages: in a real program a hook finds its pages
/// evicted from the TLB.
struct CachedName {
  const char* key;
  uint32_t offset;  ///< of its entry in the pool's name table
  uint32_t id;
};

/// What an event says of the communication it stands for.
struct CommFacts {
  bool is_comm;
  bool point_to_point;
  uint32_t comm;  ///< name of the communicator; UINT32_MAX: none
  int32_t peer;
  int64_t bytes;
};

/// A pushed NVTX range; begin 0: pushed while nothing was recorded.
struct PushedRange {
  uint64_t begin;
  uint32_t name;
  uint32_t domain;
  CommFacts comm;  ///< set where comm.is_comm
};

/// A torch record that has begun on this thread, found again by its address.
struct BegunOperator {
  const void* function;
  uint64_t begin;
  uint32_t name;
  uint32_t shapes;  ///< name of its inputs' shapes; UINT32_MAX: not kept
  int32_t number;   ///< by which CUPTI knows it; -1: CUPTI was not told
};

/// All zero is a thread not seen yet: after a fork the kernel wipes these, so a child never writes
/// into its parent's segments.
struct Thread {
  TellerRecord* next;
  uint32_t left;  ///< records left in `segment`
  uint32_t tid;
  TellerSegment* segment;
  uint64_t retry_ticks;  ///< no search for a segment before this stamp
  std::atomic<uint32_t> in_use;
  uint32_t range_depth;
  uint32_t ranges_too_deep;
  uint32_t operator_depth;
  uint32_t operators_numbered;  ///< so far
  bool busy;  ///< inside a slow path: a signal handler that comes back in drops its record
  PushedRange ranges[kMaxRangeDepth];
  BegunOperator operators[kMaxOperatorDepth];
  CachedName names[kNameCacheSlots];
};

// ---- Per process

/// A range started by nvtxRangeStart, which any thread may end.
struct StartedRange {
  std::atomic<uint32_t> generation;  ///< odd: open
  uint32_t name;
  uint64_t begin;
  uint32_t tid;
};

/// An active perturbation that concerns this process (rank and node hold).
struct Plan {
  uint32_t slot, plan_id, target, mode, every_n, seed, pattern_length;
  bool prefix;
  double factor, probability;
  int64_t delay_ns;
  char pattern[sizeof(TellerPerturbation::pattern)];
};

struct PlanTable {
  uint32_t count;
  Plan plans[TELLER_PERTURBATIONS];
};

/// Matching calls of one slot so far; a new plan id starts again from 0.
struct PlanCounter {
  uint32_t plan_id;
  std::atomic<uint32_t> calls;
};

class SpinLock {
 public:
  void lock() noexcept;
  void unlock() noexcept { taken_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> taken_;
};

inline constexpr uint32_t kPlanTables =
    8;  ///< a table is used again only after seven later changes
inline constexpr uint32_t kSpareSegments = 64;

/// State of one process, wiped by the kernel in a forked child, which then attaches anew.
struct State {
  std::atomic<uint32_t> switches;
  std::atomic<uint32_t> ready;
  TellerPoolHeader* pool;
  char* names;
  TellerSegment* segments;
  char pool_path[640];

  std::atomic<uint32_t> segment_hint;
  std::atomic<uint32_t> taken_since_bell;
  std::atomic<TellerSegment*>
      spares[kSpareSegments];  ///< partly filled, left by threads that ended
  SpinLock grow_lock;

  SpinLock note_lock;
  SpinLock name_lock;
  std::atomic<uint32_t> name_bytes_backed;  ///< of the name table, that have memory
  std::atomic<uint64_t>
      name_index[kNameIndexSlots];  ///< hash in the high half, id + 1 in the low one
  uint32_t name_offsets[kMaxNames];

  std::atomic<uint32_t> started_hint;
  StartedRange started[kMaxOpenRanges];

  std::atomic<uint32_t> device_collectives;  ///< collectives of the device runtime that run now
  std::atomic<const PlanTable*> plans;
  uint32_t next_table;
  PlanTable tables[kPlanTables];
  PlanCounter counters[TELLER_PERTURBATIONS];
  std::atomic<TellerHitRing*> hits;

  std::atomic<uint32_t> cupti_called, cupti_attached;
  bool cupti_on;  ///< its kinds are enabled; background thread only, once attached
};

/// NULL until the agent has attached to anything.
extern State* g_state;

/// Maps the memory of g_state and of the threads. False when the system refuses.
bool AllocateState() noexcept;

extern constinit thread_local Thread* t_thread __attribute__((tls_model("initial-exec")));

/// Takes a Thread for the calling thread; NULL when kMaxThreads are alive.
Thread* NewThread() noexcept;

/// All kMaxThreads of them, used or not; NULL before AllocateState.
extern Thread* g_threads;

/// Visits every Thread that is in use.
template <typename Visit>
void ForEachThread(Visit visit) noexcept {
  for (uint32_t i = 0; g_threads != nullptr && i < kMaxThreads; ++i) {
    if (g_threads[i].in_use.load(std::memory_order_acquire) != 0) visit(g_threads[i]);
  }
}

/// The calling thread's own Thread, or NULL.
inline Thread* CurrentThread() noexcept {
  Thread* thread = t_thread;
  if (__builtin_expect(thread != nullptr && thread->tid != 0, true)) return thread;
  return NewThread();
}

inline uint32_t Switches() noexcept {
  return g_state == nullptr ? 0 : g_state->switches.load(std::memory_order_relaxed);
}

void CountDrop(TellerDropReason reason) noexcept;

/// Thread id by the kernel, in the innermost namespace.
uint32_t KernelThreadId() noexcept;

/// Keeps errno for the target over a slow path.
class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept;
  ~ErrnoKeeper();

 private:
  int saved_;
};

}  // namespace teller::agent
