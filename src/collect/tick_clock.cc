#include "src/collect/tick_clock.h"

#include <algorithm>

#include "src/core/clock.h"
#include "src/core/error.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace teller::collect {

namespace {

constexpr int64_t kTrustedSpanNs = 1'000'000'000;
/// A triple that was interrupted between its readings is worth nothing where there are others.
constexpr uint64_t kUncertaintyFactor = 20;

uint64_t ReadTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(MonotonicNs());
#endif
}

std::vector<TellerClockTriple> Usable(const std::vector<TellerClockTriple>& triples) {
  uint64_t best = UINT64_MAX;
  for (const TellerClockTriple& t : triples) best = std::min(best, t.uncertainty_ticks);
  std::vector<TellerClockTriple> kept;
  for (const TellerClockTriple& t : triples) {
    if (t.uncertainty_ticks > (best + 1) * kUncertaintyFactor) continue;
    if (!kept.empty() && t.ticks <= kept.back().ticks) continue;
    kept.push_back(t);
  }
  return kept;
}

}  // namespace

TickClock::TickClock(const std::vector<TellerClockTriple>& triples, double ns_per_tick) {
  const std::vector<TellerClockTriple> usable = Usable(triples);
  TELLER_CHECK(!usable.empty());
  for (std::size_t i = 0; i < usable.size(); ++i) {
    double slope = ns_per_tick;
    if (i + 1 < usable.size()) {
      slope = static_cast<double>(usable[i + 1].monotonic_ns - usable[i].monotonic_ns) /
              static_cast<double>(usable[i + 1].ticks - usable[i].ticks);
    } else if (usable[i].monotonic_ns - usable[0].monotonic_ns >= kTrustedSpanNs) {
      slope = static_cast<double>(usable[i].monotonic_ns - usable[0].monotonic_ns) /
              static_cast<double>(usable[i].ticks - usable[0].ticks);
    }
    pieces_.push_back({usable[i].ticks, usable[i].monotonic_ns, slope});
  }
  slope_before_ = pieces_.back().ns_per_tick;
}

int64_t TickClock::ToNs(uint64_t ticks) const {
  if (ticks < pieces_[0].ticks) {
    return pieces_[0].ns - static_cast<int64_t>(
                               static_cast<double>(pieces_[0].ticks - ticks) * slope_before_ + 0.5);
  }
  const bool in_last = ticks >= pieces_[last_].ticks &&
                       (last_ + 1 == pieces_.size() || ticks < pieces_[last_ + 1].ticks);
  if (!in_last) {
    const auto after =
        std::upper_bound(pieces_.begin(), pieces_.end(), ticks,
                         [](uint64_t t, const Piece& piece) { return t < piece.ticks; });
    last_ = static_cast<std::size_t>(after - pieces_.begin()) - 1;
  }
  const Piece& piece = pieces_[last_];
  return piece.ns +
         static_cast<int64_t>(static_cast<double>(ticks - piece.ticks) * piece.ns_per_tick + 0.5);
}

TickRate::TickRate() : ticks_(ReadTicks()), ns_(MonotonicNs()) {}

double TickRate::NsPerTick() const {
  const uint64_t ticks = ReadTicks() - ticks_;
  const int64_t ns = MonotonicNs() - ns_;
  return ticks == 0 ? 1 : static_cast<double>(ns) / static_cast<double>(ticks);
}

}  // namespace teller::collect
