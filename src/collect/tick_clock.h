#pragma once

#include <cstdint>
#include <vector>

#include "src/abi/pool.h"

namespace teller::collect {

/// Stamps of one process (TSC ticks) to nanoseconds of the CLOCK_MONOTONIC that this process sees,
/// linear between its calibration triples.
class TickClock {
 public:
  /// @param triples            in order of time; at least one
  /// @param ns_per_tick        rate of the machine, used outside the triples where they span less
  /// than a second
  TickClock(const std::vector<TellerClockTriple>& triples, double ns_per_tick);

  int64_t ToNs(uint64_t ticks) const;

 private:
  struct Piece {
    uint64_t ticks;
    int64_t ns;
    double ns_per_tick;  ///< from here to the next piece
  };
  std::vector<Piece> pieces_;
  double slope_before_;
  mutable std::size_t last_ = 0;  ///< stamps come nearly in order
};

/// The rate of this machine's TSC against CLOCK_MONOTONIC, from two readings that lie apart.
class TickRate {
 public:
  TickRate();
  /// Nanoseconds a tick since construction. 1 where there is no TSC.
  double NsPerTick() const;

 private:
  uint64_t ticks_;
  int64_t ns_;
};

}  // namespace teller::collect
