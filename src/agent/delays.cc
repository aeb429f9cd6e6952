#include "src/agent/delays.h"

#include <math.h>
#include <time.h>

#include <cstring>

#include "src/agent/clock.h"
#include "src/agent/hit_log.h"
#include "src/agent/settings.h"

namespace teller::agent {

namespace {

/// A sleeper of SCHED_BATCH, which ranks are, is put back only when whoever took its processor has
/// used up a slice: sleeps on a busy machine last 2 to 3 times as long as asked. So delays up to
/// this, and the end of longer ones, are spun.
constexpr int64_t kSpinNs = 20'000'000;
constexpr double kRandomCutMeans = 10;
constexpr int64_t kMaxDelayNs = 60'000'000'000;  // a damaged control block never hangs a target

/// SplitMix64 finaliser: a well mixed number for a counter.
uint64_t Mix(uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Uniform in [0, 1), the same for the same plan, call and purpose.
double Uniform(const Plan& plan, uint32_t call, uint32_t purpose) noexcept {
  const uint64_t key = (uint64_t{plan.seed} << 32 | call) ^ Mix(plan.plan_id * 2 + purpose);
  return static_cast<double>(Mix(key) >> 11) * 0x1p-53;
}

bool AtEnd(const Plan& plan) noexcept { return plan.mode == TELLER_DELAY_PROPORTIONAL; }

/// Counts the matching call and decides whether it is one of those to delay.
bool IsChosen(const Plan& plan, uint32_t& call) noexcept {
  call = g_state->counters[plan.slot].calls.fetch_add(1, std::memory_order_relaxed);
  if (plan.every_n > 1 && call % plan.every_n != 0) return false;
  return plan.probability >= 1 || Uniform(plan, call, 0) < plan.probability;
}

int64_t RandomDelayNs(const Plan& plan, uint32_t call) noexcept {
  const double means = -log(1 - Uniform(plan, call, 1));
  return static_cast<int64_t>(static_cast<double>(plan.delay_ns) *
                              (means < kRandomCutMeans ? means : kRandomCutMeans));
}

int64_t OwnTimeNs(uint64_t begin) noexcept {
  const uint64_t elapsed = Now() - begin;
  if (!g_ticks_are_tsc) return static_cast<int64_t>(elapsed);
  const uint64_t rate = g_state->pool->ticks_per_second;
  return rate > 1
             ? static_cast<int64_t>(static_cast<double>(elapsed) * 1e9 / static_cast<double>(rate))
             : 0;
}

int64_t DelayNs(const Plan& plan, uint32_t call, uint64_t begin) noexcept {
  int64_t delay_ns = plan.delay_ns;
  if (plan.mode == TELLER_DELAY_RANDOM) delay_ns = RandomDelayNs(plan, call);
  if (plan.mode == TELLER_DELAY_PROPORTIONAL) {
    delay_ns = static_cast<int64_t>(plan.factor * static_cast<double>(OwnTimeNs(begin)));
  }
  if (delay_ns < 0) return 0;
  return delay_ns < kMaxDelayNs ? delay_ns : kMaxDelayNs;
}

void DelayOnce(const Plan& plan, const PerturbedCall& call, uint64_t begin) noexcept {
  uint32_t number = 0;
  if (!IsChosen(plan, number)) return;
  const int64_t delay_ns = DelayNs(plan, number, begin);
  TellerHit hit{};
  hit.begin_ns = MonotonicNs();
  if (delay_ns > 0) Wait(delay_ns);
  hit.end_ns = MonotonicNs();
  hit.plan_id = plan.plan_id;
  hit.target = call.target;
  hit.correlation = call.correlation;
  hit.inside = 1;
  LogHit(hit);
}

void DelayMatching(const PerturbedCall& call, bool at_end, uint64_t begin) noexcept {
  const PlanTable* table = g_state->plans.load(std::memory_order_acquire);
  if (table == nullptr) return;
  const ErrnoKeeper errno_keeper;
  for (uint32_t i = 0; i < table->count; ++i) {
    const Plan& plan = table->plans[i];
    if (plan.target != call.target || AtEnd(plan) != at_end || !MatchesPattern(plan, call.name))
      continue;
    const Plan copy = plan;  // the table may be used again while this call waits
    DelayOnce(copy, call, begin);
  }
}

bool Concerns(const TellerPerturbation& entry, int32_t rank, const char* node) noexcept {
  if (entry.rank_mask != UINT64_MAX) {
    if (rank < 0 || rank >= 64 || ((entry.rank_mask >> rank) & 1u) == 0) return false;
  }
  return entry.node[0] == 0 || strncmp(entry.node, node, sizeof entry.node) == 0;
}

Plan CompilePlan(const TellerPerturbation& entry, uint32_t slot) noexcept {
  Plan plan{};
  plan.slot = slot;
  plan.plan_id = entry.plan_id;
  plan.target = entry.target;
  plan.mode = entry.mode;
  plan.every_n = entry.every_n;
  plan.seed = entry.seed;
  plan.factor = entry.factor;
  plan.probability = entry.probability;
  plan.delay_ns = entry.delay_ns < static_cast<uint64_t>(kMaxDelayNs)
                      ? static_cast<int64_t>(entry.delay_ns)
                      : kMaxDelayNs;
  memcpy(plan.pattern, entry.pattern, sizeof plan.pattern);
  plan.pattern[sizeof plan.pattern - 1] = 0;
  plan.pattern_length = static_cast<uint32_t>(strlen(plan.pattern));
  plan.prefix = plan.pattern_length > 0 && plan.pattern[plan.pattern_length - 1] == '*';
  if (plan.prefix) --plan.pattern_length;
  return plan;
}

void RestartCounter(const Plan& plan) noexcept {
  PlanCounter& counter = g_state->counters[plan.slot];
  if (counter.plan_id == plan.plan_id + 1) return;
  counter.plan_id = plan.plan_id + 1;  // 0: never used
  counter.calls.store(0, std::memory_order_relaxed);
}

/// Fills the next table and answers the bits of what it waits for.
uint32_t CompilePlans(const TellerControl& control) noexcept {
  PlanTable& table = g_state->tables[g_state->next_table++ % kPlanTables];
  table.count = 0;
  uint32_t bits = 0;
  for (uint32_t slot = 0; slot < TELLER_PERTURBATIONS; ++slot) {
    const TellerPerturbation& entry = control.perturbations[slot];
    if (__atomic_load_n(&entry.active, __ATOMIC_ACQUIRE) == 0 || entry.target >= kTargetCount)
      continue;
    if (!Concerns(entry, g_state->pool->rank, g_state->pool->node)) continue;
    const Plan plan = CompilePlan(entry, slot);
    if (__atomic_load_n(&entry.active, __ATOMIC_ACQUIRE) == 0)
      continue;  // changed while it was copied
    RestartCounter(plan);
    table.plans[table.count++] = plan;
    bits |= AtEnd(plan) ? DelayAtEndBit(plan.target) : DelayAtStartBit(plan.target);
  }
  g_state->plans.store(&table, std::memory_order_release);
  return bits;
}

uint32_t RecordBits(const TellerControl& control) noexcept {
  const uint32_t level = __atomic_load_n(&control.level, __ATOMIC_ACQUIRE);
  const auto allowed = [&](TellerSource source) { return ((control.sources >> source) & 1u) != 0; };
  uint32_t bits = 0;
  if (level >= TELLER_LEVEL_RANGES && allowed(TELLER_SOURCE_NVTX)) bits |= kRecordNvtx;
  if (level >= TELLER_LEVEL_RANGES && allowed(TELLER_SOURCE_TORCH)) bits |= kRecordScopes;
  if (level >= TELLER_LEVEL_FULL && allowed(TELLER_SOURCE_TORCH)) bits |= kRecordOperators;
  if (level >= TELLER_LEVEL_FULL && allowed(TELLER_SOURCE_CPU_STREAM)) bits |= kRecordDevice;
  if (level >= TELLER_LEVEL_FULL && allowed(TELLER_SOURCE_CUPTI)) bits |= kRecordCupti;
  if (control.whole_graphs != 0) bits |= kWholeGraphs;
  if (control.shapes != 0) bits |= kRecordShapes;
  const uint32_t tied = kRecordOperators | kRecordCupti;
  if (g_state->cupti_attached.load(std::memory_order_acquire) != 0 && (bits & tied) == tied)
    bits |= kTieCalls;
  return bits;
}

bool Matches(const Plan& plan, const char* name) noexcept {
  if (strncmp(plan.pattern, name, plan.pattern_length) != 0) return false;
  return plan.prefix || name[plan.pattern_length] == 0;
}

}  // namespace

bool MatchesPattern(const Plan& plan, const char* name) noexcept {
  if (name == nullptr) name = "";
  if (Matches(plan, name)) return true;
  if (plan.target != TELLER_TARGET_COLLECTIVE) return false;
  const char* colon = strchr(name, ':');
  return colon != nullptr && Matches(plan, colon + 1);
}

void Wait(int64_t delay_ns) noexcept {
  const int64_t end_ns = MonotonicNs() + delay_ns;
  const int64_t wake_ns = end_ns - kSpinNs;
  const timespec wake{wake_ns / 1000000000, wake_ns % 1000000000};
  while (MonotonicNs() < wake_ns) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
  }
  while (MonotonicNs() < end_ns) {
  }
}

void DelayAtStart(const PerturbedCall& call) noexcept { DelayMatching(call, false, 0); }

void DelayAtEnd(const PerturbedCall& call, uint64_t begin) noexcept {
  DelayMatching(call, true, begin);
}

void ApplyNothing() noexcept { g_state->switches.store(0, std::memory_order_release); }

void ApplyControl(const TellerControl& control) noexcept {
  uint32_t switches = RecordBits(control);
  if (__atomic_load_n(&control.perturb, __ATOMIC_ACQUIRE) != 0 && OpenHitLog()) {
    switches |= CompilePlans(control);
  }
  g_state->switches.store(switches, std::memory_order_release);
}

}  // namespace teller::agent
