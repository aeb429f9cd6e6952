// A stand-in for a rank with an agent: makes 'steps' of a millisecond with a call named all_reduce,
// obeys the control block and logs its hits. Its other thread watches the clock and writes every
// gap of 500 us or more to GAPS, begin and end in ns a line: pauses as seen from inside. usage:
// fault_target GAPS
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "src/abi/control_file.h"

namespace {

constexpr char kCall[] = "all_reduce";

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void SpinFor(int64_t duration_ns) {
  for (const int64_t end_ns = Now() + duration_ns; Now() < end_ns;) {
  }
}

TellerHitRing* MakeRing(const std::string& folder, int rank) {
  const std::string path = folder + "/" + std::to_string(getpid()) + "-1.hits";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(TellerHitRing)) != 0) std::abort();
  void* address = mmap(nullptr, sizeof(TellerHitRing), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) std::abort();
  close(file);
  auto* ring = static_cast<TellerHitRing*>(address);
  ring->abi_version = TELLER_ABI_VERSION;
  ring->pid = static_cast<uint32_t>(getpid());
  ring->rank = rank;
  std::strncpy(ring->node, std::getenv("TELLER_NODE"), sizeof ring->node - 1);
  __atomic_store_n(&ring->magic, TELLER_HITS_MAGIC, __ATOMIC_RELEASE);
  return ring;
}

bool Matches(const TellerPerturbation& entry, int rank) {
  const std::string pattern = entry.pattern;
  const bool prefix = !pattern.empty() && pattern.back() == '*';
  const bool named = prefix ? std::string(kCall).starts_with(pattern.substr(0, pattern.size() - 1))
                            : pattern == kCall;
  return named && entry.target == TELLER_TARGET_COLLECTIVE && (entry.rank_mask >> rank & 1) != 0;
}

void Perturb(const TellerControl* control, TellerHitRing* ring, int rank) {
  for (const TellerPerturbation& entry : control->perturbations) {
    if (__atomic_load_n(&entry.active, __ATOMIC_ACQUIRE) == 0 || !Matches(entry, rank)) continue;
    const int64_t begin_ns = Now();
    SpinFor(static_cast<int64_t>(entry.delay_ns));
    const uint64_t ticket = __atomic_fetch_add(&ring->head, 1, __ATOMIC_RELAXED);
    TellerHit& slot = ring->slots[ticket % TELLER_HIT_SLOTS];
    slot.begin_ns = begin_ns;
    slot.end_ns = Now();
    slot.plan_id = entry.plan_id;
    slot.rank = rank;
    slot.inside = 1;
    __atomic_store_n(&slot.ticket, ticket + 1, __ATOMIC_RELEASE);
  }
}

void WatchClock(const char* path) {
  std::FILE* gaps = std::fopen(path, "a");
  for (int64_t before_ns = Now();;) {
    const int64_t now_ns = Now();
    if (now_ns - before_ns >= 500'000) {
      std::fprintf(gaps, "%lld %lld\n", static_cast<long long>(before_ns),
                   static_cast<long long>(now_ns));
      std::fflush(gaps);
    }
    before_ns = now_ns;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* rank_text = std::getenv("RANK");
  const int rank = rank_text == nullptr ? 0 : std::atoi(rank_text);
  std::thread(WatchClock, argv[1]).detach();
  TellerControl* control = nullptr;
  TellerHitRing* ring = nullptr;
  if (const char* folder = std::getenv("TELLER_RUN_DIR")) {
    if (teller_control_map(folder, 0, &control) != 0) return 3;
    ring = MakeRing(folder, rank);
  }
  std::puts("running");
  std::fflush(stdout);
  while (true) {
    if (control != nullptr) Perturb(control, ring, rank);
    usleep(1000);
  }
}
