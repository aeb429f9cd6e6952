#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/interner.h"
#include "src/reconstruct/collectives.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

/// How a process's clock was related to the base.
enum class ClockMethod : uint8_t {
  kBase = 0,         ///< it is the base, or runs on its node
  kSharedTicks = 1,  ///< same host: one time stamp counter, read together with each clock
  kProbes = 2,       ///< exchanges between collectors
  kCollectives = 3,  ///< ends of matched collectives
  kUnrelated = 4     ///< nothing relates it
};
std::string_view ClockMethodName(ClockMethod method);

/// From a process's clock to the run's base.
struct ClockMap {
  int64_t offset_ns = 0;     ///< added to the process's time at `reference_ns`
  double drift = 0;          ///< change of the offset, ns per ns
  int64_t reference_ns = 0;  ///< on the process's clock
  int64_t error_ns = 0;      ///< bound: half the least round trip seen; 0 for the base
  ClockMethod method = ClockMethod::kBase;

  int64_t ToBase(int64_t time_ns) const {
    const int64_t shifted_ns = time_ns + offset_ns;
    if (drift == 0) return shifted_ns;
    return shifted_ns + static_cast<int64_t>(drift * static_cast<double>(time_ns - reference_ns));
  }
};

struct Alignment {
  bool aligned = true;  ///< every process could be related to the base
  /// Largest over clocks: median distance of what a clock was fitted to from its fit; 0 for one
  /// clock.
  int64_t residual_ns = 0;
  std::vector<ClockMap> processes;  ///< by process
  std::vector<std::string> notes;   ///< what a reader should know, for people
};

/// One exchange between clocks A and B. What B did after A's part and A after B's bounds how far B
/// is ahead: lower <= B minus A <= upper; the distance of the two is the round trip.
struct OffsetSample {
  int64_t time_ns = 0;    ///< on clock A
  int64_t offset_ns = 0;  ///< best guess of this exchange alone
  int64_t lower_ns = 0, upper_ns = 0;

  int64_t round_trip_ns() const { return upper_ns - lower_ns; }
};

struct OffsetFit {
  int64_t offset_ns = 0;  ///< B minus A at `reference_ns`
  double drift = 0;
  int64_t reference_ns = 0;  ///< on clock A
  int64_t residual_ns = 0;   ///< median distance of the best exchanges' guesses from the fit
  int64_t error_ns = 0;      ///< the offset is at most so far off, by the bounds of all exchanges
  bool asymmetric = false;   ///< even the best exchanges leave a large error: a delay of the whole
                             ///< run in one direction cannot be told from an offset
};

/// Lower-envelope fit. Exchanges with the least round trips in each part of the run, without the
/// parts whose best is far above the run's, give the drift (median of slopes, Theil 1950, Sen 1968,
/// where it is larger than the noise) and the median of the guesses. The third-highest lower and
/// third-lowest upper bound of all exchanges (two wrong pairs are forgiven) frame the offset: where
/// the guesses agree far better than the frame is wide they are kept, inside it; else its middle is
/// taken. So neither a straggler nor a delay in one direction during half of the run moves the
/// offset. Nothing where there are fewer than 3 samples.
std::optional<OffsetFit> FitOffset(std::span<const OffsetSample> samples);

struct AlignOptions {
  bool shared_ticks = true;  ///< false: as if every node were another machine
  bool probes = true;
  bool collectives = true;
};

/// Puts processes on the clock of the lowest rank's process. Processes of one node share a clock.
/// Other nodes are related by what is surest: shared ticks of one host, probes, matched
/// collectives, directly or over a third node.
/// @param records  collectives of all processes (CollectivesOf, one after another); names from
/// `strings`
Alignment AlignClocks(std::span<const trace::ProcessInfo> processes,
                      std::span<const trace::ClockTriple> triples,
                      std::span<const trace::ClockProbe> probes,
                      std::span<const CollectiveRecord> records, const StringInterner& strings,
                      const AlignOptions& options = {});

}  // namespace teller::reconstruct
