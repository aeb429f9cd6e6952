#include "fault_injection/hit_drain.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "src/abi/control_file.h"

namespace teller::fault_injection {
namespace {

namespace fs = std::filesystem;

/// A ring holds 65,536 hits: at 20 ms that is three million a second before one is lost.
constexpr std::chrono::milliseconds kDrainPeriod(20);
/// New processes appear seldom; looking for them costs a folder scan.
constexpr int kDrainsPerScan = 5;
/// A live writer is between its ticket and its hit for a delay at most.
constexpr int kFinishDrains = 25;

uint64_t Load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

}  // namespace

struct HitDrain::Ring {
  TellerHitRing* hits = nullptr;
  std::string node;
  uint64_t lost_seen = 0;

  ~Ring() { teller_hits_unmap(hits); }
};

HitDrain::HitDrain(fs::path run_dir, TruthWriter& truth)
    : run_dir_(std::move(run_dir)), truth_(truth) {
  thread_ = std::jthread([this](std::stop_token stop) { Follow(stop); });
}

HitDrain::~HitDrain() { Finish(); }

void HitDrain::Expect(const PlannedFault& plan) {
  const std::lock_guard lock(mutex_);
  expected_[plan.plan_id] = {.placebo = plan.placebo, .rank = plan.target.rank};
}

HitSums HitDrain::Sums(uint32_t plan_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(plan_id);
  return found == sums_.end() ? HitSums{} : found->second;
}

int64_t HitDrain::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void HitDrain::Follow(std::stop_token stop) {
  for (int turn = 0; !stop.stop_requested(); ++turn) {
    if (turn % kDrainsPerScan == 0) FindRings();
    DrainOnce();
    std::this_thread::sleep_for(kDrainPeriod);
  }
}

void HitDrain::FindRings() {
  std::error_code error;
  for (const auto& file : fs::directory_iterator(run_dir_, error)) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() != ".hits" || rings_.contains(name)) continue;
    auto ring = std::make_unique<Ring>();
    const int problem = teller_hits_map(file.path().c_str(), &ring->hits);
    if (problem == EAGAIN) continue;  // being created
    if (problem == 0) {
      ring->node.assign(ring->hits->node, strnlen(ring->hits->node, sizeof ring->hits->node));
    } else {
      truth_.Lost(std::nullopt, "", 1, "hit ring " + name + ": " + std::strerror(problem));
    }
    rings_.emplace(name, std::move(ring));
  }
}

bool HitDrain::DrainOnce() {
  bool drained = true;
  for (auto& [name, ring] : rings_) {
    if (ring->hits == nullptr) continue;
    TellerHit hit;
    while (teller_hits_take(ring->hits, &hit) == 1) Take(*ring, hit);
    CountLost(*ring, /*final=*/false);
    drained &= Load(ring->hits->head) == Load(ring->hits->tail);
  }
  return drained;
}

void HitDrain::Take(const Ring& ring, const TellerHit& hit) {
  Expected expected;
  {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(hit.plan_id);
    if (found == expected_.end()) {
      ++strangers_;
      return;
    }
    expected = found->second;
    HitSums& sums = sums_[hit.plan_id];
    ++sums.count;
    if (!expected.placebo) sums.delay_ns += hit.end_ns - hit.begin_ns;
  }
  if (expected.placebo) return;
  truth_.Action({.plan_id = hit.plan_id,
                 .node = ring.node,
                 .rank = hit.rank < 0 ? expected.rank : RankId{hit.rank},
                 .begin_ns = hit.begin_ns,
                 .end_ns = hit.end_ns,
                 .what = "delay",
                 .where = hit.inside != 0 ? "inside" : "before"});
}

void HitDrain::CountLost(Ring& ring, bool final) {
  const uint64_t lost = Load(ring.hits->lost);
  int64_t fresh = static_cast<int64_t>(lost - ring.lost_seen);
  ring.lost_seen = lost;
  if (fresh > 0) truth_.Lost(std::nullopt, ring.node, fresh, "hit ring full");
  if (final) {
    const auto torn = static_cast<int64_t>(Load(ring.hits->head) - Load(ring.hits->tail));
    if (torn > 0) truth_.Lost(std::nullopt, ring.node, torn, "process ended within a hit");
    fresh += torn;
  }
  const std::lock_guard lock(mutex_);
  lost_ += fresh;
}

void HitDrain::Finish() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  FindRings();
  for (int turn = 0; turn < kFinishDrains && !DrainOnce(); ++turn) {
    std::this_thread::sleep_for(kDrainPeriod);
  }
  for (auto& [name, ring] : rings_) {
    if (ring->hits != nullptr) CountLost(*ring, /*final=*/true);
  }
  rings_.clear();
  if (strangers_ > 0) truth_.Lost(std::nullopt, "", strangers_, "hits of no plan of this run");
}

}  // namespace teller::fault_injection
