#include "src/agent/background.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "src/abi/control_file.h"
#include "src/agent/clock.h"
#include "src/agent/delays.h"
#include "src/agent/entrances.h"
#include "src/agent/names.h"
#include "src/agent/segments.h"
#include "src/agent/settings.h"
#include "src/agent/state.h"

namespace teller::agent {

namespace {

/// While torch may still come, or many records are written; each look costs the target a switch of
/// threads.
constexpr int64_t kPollNs = 10'000'000;
constexpr int64_t kIdlePollNs = 50'000'000;
/// Above this, segments may run out before the next idle look.
constexpr uint64_t kBusyRecords = 4 * TELLER_SEGMENT_RECORDS;
constexpr int64_t kClockPeriodNs = 1'000'000'000;
constexpr int64_t kTitlePeriodNs = 200'000'000;
constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kOwnerPeriodNs = 200 * kMsNs;
/// The loss window of a killed target, for device activity.
constexpr int64_t kFlushPeriodNs = 100 * kMsNs;
/// Extra clock triples early on, so that a short process has two that lie well apart.
constexpr int64_t kEarlyClockNs[] = {10 * kMsNs, 50 * kMsNs, 200 * kMsNs, 500 * kMsNs};
constexpr int kForkWaitMs = 20;
constexpr std::size_t kStackBytes = 256 * 1024;

TellerControl* control;  // stays mapped over a fork
std::atomic<uint32_t> loader_lock;

/// Waits for a change of the control block, at most `most_ns`.
void WaitForChange(uint32_t seen_generation, int64_t most_ns) noexcept {
  const timespec timeout{0, most_ns};
  if (control == nullptr) {
    nanosleep(&timeout, nullptr);
    return;
  }
  syscall(SYS_futex, &control->generation, FUTEX_WAIT, seen_generation, &timeout, nullptr, 0);
}

bool MapControl() noexcept {
  return control != nullptr || teller_control_map(LoadSettings().run_dir, 0, &control) == 0;
}

uint32_t Generation() noexcept {
  return control == nullptr ? 0 : __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
}

/// A worker names itself late; the rank decides which perturbations concern it. True where the rank
/// was learned now.
bool LearnFromTitle() noexcept {
  TellerPoolHeader* pool = g_state->pool;
  char title[sizeof pool->command];
  CommandLine(title, sizeof title);
  if (strcmp(title, pool->command) == 0) return false;
  memcpy(pool->command, title, sizeof pool->command);
  ShortName(pool->comm, sizeof pool->comm);
  const int32_t rank = RankOfTitle(title);
  if (rank < 0 || pool->rank >= 0) return false;
  __atomic_store_n(&pool->rank, rank, __ATOMIC_RELEASE);
  if (TellerHitRing* hits = g_state->hits.load(std::memory_order_acquire)) hits->rank = rank;
  return true;
}

bool owner_is_gone;  // background thread only

void Apply() noexcept {
  owner_is_gone ? ApplyNothing() : ApplyControl(*control);
  FollowTorchSwitches();
  FollowDeviceSwitches();
  FollowCuptiSwitches();
}

void PollTorchUnderLock() noexcept {
  if (loader_lock.exchange(1, std::memory_order_acquire) != 0) return;
  PollTorch();
  loader_lock.store(0, std::memory_order_release);
}

/// Stamps of the next clock triple and the next look at the title.
struct Timetable {
  int64_t started_ns;
  int64_t next_clock_ns;
  int64_t next_title_ns;
  int64_t next_owner_ns;
  int64_t next_flush_ns;
  unsigned early_clocks;
};

void CalibrateWhenDue(Timetable& timetable, int64_t now_ns) noexcept {
  if (now_ns < timetable.next_clock_ns) return;
  WriteClockTriple();
  constexpr unsigned kEarly = sizeof kEarlyClockNs / sizeof kEarlyClockNs[0];
  timetable.next_clock_ns = timetable.early_clocks < kEarly
                                ? timetable.started_ns + kEarlyClockNs[timetable.early_clocks++]
                                : now_ns + kClockPeriodNs;
}

bool LookAtTitleWhenDue(Timetable& timetable, int64_t now_ns) noexcept {
  if (now_ns < timetable.next_title_ns) return false;
  timetable.next_title_ns = now_ns + kTitlePeriodNs;
  return LearnFromTitle();
}

/// True where the run has lost its owner, or has a new one, since the last look.
bool LookForOwnerWhenDue(Timetable& timetable, int64_t now_ns) noexcept {
  if (now_ns < timetable.next_owner_ns || control == nullptr) return false;
  timetable.next_owner_ns = now_ns + kOwnerPeriodNs;
  const bool was_gone = owner_is_gone;
  owner_is_gone = teller_control_owner_is_gone(control) != 0;
  return owner_is_gone != was_gone;
}

/// How long nothing can happen that would have to be seen at once.
int64_t PollNs(uint64_t& written) noexcept {
  const uint64_t before = written;
  written = __atomic_load_n(&g_state->pool->written, __ATOMIC_RELAXED);
  const bool idle = TorchIsSettled() && control != nullptr && written - before <= kBusyRecords;
  return idle ? kIdlePollNs : kPollNs;
}

void FlushCuptiWhenDue(Timetable& timetable, int64_t now_ns) noexcept {
  if (now_ns < timetable.next_flush_ns) return;
  timetable.next_flush_ns = now_ns + kFlushPeriodNs;
  FlushCupti();
}

void* RunBackground(void*) {
  prctl(PR_SET_NAME, "teller-agent");
  const int64_t started_ns = MonotonicNs();
  Timetable timetable{started_ns, started_ns + kEarlyClockNs[0], started_ns, started_ns, 0, 1};
  uint32_t seen = Generation() - 1, cupti_seen = 0;
  uint64_t written = 0;
  for (;;) {
    const uint32_t generation = Generation();
    const int64_t now_ns = MonotonicNs();
    const bool rank_changed = LookAtTitleWhenDue(timetable, now_ns);
    CalibrateWhenDue(timetable, now_ns);
    PollTorchUnderLock();
    const bool owner_changed = LookForOwnerWhenDue(timetable, now_ns);
    const uint32_t cupti = g_state->cupti_attached.load(std::memory_order_acquire);
    if (MapControl() &&
        (generation != seen || rank_changed || owner_changed || cupti != cupti_seen))
      Apply();
    seen = generation;
    cupti_seen = cupti;
    FlushCuptiWhenDue(timetable, now_ns);
    if (g_state->pool->segment_count > 0) GrowPool(kFreeSegmentsWanted);
    WaitForChange(seen, PollNs(written));
  }
  return nullptr;
}

}  // namespace

void NoteAttached(int source, long begin_ns) noexcept {
  TellerPoolHeader* pool = g_state->pool;
  pool->attach_ns[source] = static_cast<uint64_t>(MonotonicNs() - begin_ns);
  __atomic_fetch_or(&pool->sources_attached, 1u << source, __ATOMIC_RELEASE);
  GrowPool(kFirstSegments);
}

void Note(const char* text) noexcept {
  g_state->note_lock.lock();
  char* note = g_state->pool->note;
  constexpr std::size_t kSize = sizeof(TellerPoolHeader::note);
  const std::size_t used = strnlen(note, kSize - 1);
  if (strstr(note, text) == nullptr)
    snprintf(note + used, kSize - used, "%s%s", used == 0 ? "" : "; ", text);
  g_state->note_lock.unlock();
}

void NoteToolNotLoaded(const char* source, const char* path) noexcept {
  if (*path == 0) return;
  char line[sizeof(TellerPoolHeader::note)];
  snprintf(line, sizeof line, "%s takes one tool: %s is not loaded", source, path);
  Note(line);
}

bool AttachProcess() noexcept {
  const Settings& settings = LoadSettings();
  if (!settings.on || !AllocateState()) return false;
  if (g_state->ready.load(std::memory_order_acquire) != 0) return true;
  InitialiseClock();
  if (!CreatePool()) return false;
  constexpr char kFullName[] = "(name table full)";
  InternText(kFullName, sizeof kFullName - 1);
  ShortName(g_state->pool->comm, sizeof g_state->pool->comm);
  if (MapControl()) ApplyControl(*control);
  g_state->ready.store(1, std::memory_order_release);
  __atomic_store_n(&g_state->pool->magic, TELLER_POOL_MAGIC, __ATOMIC_RELEASE);
  return true;
}

void StartBackground() noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, RunBackground, nullptr) != 0) {
    Note("no background thread: level changes, late torch and clock calibration are not followed");
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LockLoaderForFork() noexcept {
  const timespec pause{0, kMsNs};
  // The loader may be held by whoever forks, with the background thread waiting for it: then go on
  // after a while.
  for (int i = 0; i < kForkWaitMs && loader_lock.exchange(1, std::memory_order_acquire) != 0; ++i) {
    nanosleep(&pause, nullptr);
  }
}

void UnlockLoaderAfterFork() noexcept { loader_lock.store(0, std::memory_order_release); }

}  // namespace teller::agent
