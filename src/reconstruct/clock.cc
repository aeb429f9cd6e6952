#include "src/reconstruct/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "src/core/clock.h"

namespace teller::reconstruct {
namespace {

constexpr int64_t kParts = 32;  // of a run, each gives its best exchanges
constexpr std::size_t kBestPerPart = 8;
constexpr int64_t kPartSlackNs =
    50'000;  // what a part's best round trip may lie above twice the run's
constexpr int64_t kSlowExchangeNs = 1'000'000;  // an error bound above this is called asymmetric
constexpr int64_t kMinDriftSpanNs = 5'000'000'000;
constexpr std::size_t kMinSamples = 3;

template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The best exchanges of one part of the run.
struct Part {
  std::vector<OffsetSample> best;
  int64_t round_trip_ns() const { return best.front().round_trip_ns(); }
};

std::vector<Part> SplitIntoParts(std::span<const OffsetSample> samples) {
  const auto [first, last] = std::ranges::minmax(samples, {}, &OffsetSample::time_ns);
  const int64_t width_ns = (last.time_ns - first.time_ns) / kParts + 1;
  std::map<int64_t, Part> parts;
  for (const OffsetSample& sample : samples) {
    parts[(sample.time_ns - first.time_ns) / width_ns].best.push_back(sample);
  }
  std::vector<Part> kept;
  for (auto& [index, part] : parts) {
    std::ranges::sort(part.best, {}, &OffsetSample::round_trip_ns);
    part.best.resize(std::min(part.best.size(), kBestPerPart));
    kept.push_back(std::move(part));
  }
  return kept;
}

std::vector<OffsetSample> LowerEnvelope(std::span<const OffsetSample> samples) {
  const std::vector<Part> parts = SplitIntoParts(samples);
  const int64_t least_ns = std::ranges::min(parts, {}, &Part::round_trip_ns).round_trip_ns();
  std::vector<OffsetSample> chosen;
  for (const Part& part : parts) {
    if (part.round_trip_ns() > 2 * least_ns + kPartSlackNs) continue;
    chosen.insert(chosen.end(), part.best.begin(), part.best.end());
  }
  return chosen;
}

double MedianSlope(std::span<const OffsetSample> samples, int64_t span_ns) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t j = i + 1; j < samples.size(); ++j) {
      const int64_t apart_ns = samples[j].time_ns - samples[i].time_ns;
      if (std::abs(apart_ns) < span_ns / 4) continue;
      slopes.push_back(static_cast<double>(samples[j].offset_ns - samples[i].offset_ns) /
                       static_cast<double>(apart_ns));
    }
  }
  return slopes.empty() ? 0 : Median(std::move(slopes));
}

// Median offset and distance from it, once the drift is taken out.
std::pair<int64_t, int64_t> MedianAndSpread(std::span<const OffsetSample> samples, double drift,
                                            int64_t reference_ns) {
  std::vector<int64_t> offsets;
  for (const OffsetSample& sample : samples) {
    offsets.push_back(
        sample.offset_ns -
        static_cast<int64_t>(drift * static_cast<double>(sample.time_ns - reference_ns)));
  }
  const int64_t median = Median(offsets);
  for (int64_t& offset : offsets) offset = std::abs(offset - median);
  return {median, Median(std::move(offsets))};
}

int64_t Span(std::span<const OffsetSample> samples) {
  const auto [first, last] = std::ranges::minmax(samples, {}, &OffsetSample::time_ns);
  return last.time_ns - first.time_ns;
}

}  // namespace

std::string_view ClockMethodName(ClockMethod method) {
  static constexpr std::string_view kNames[] = {"base", "shared ticks", "probes", "collectives",
                                                "unrelated"};
  return kNames[static_cast<int>(method)];
}

namespace {

// The frame that all exchanges together leave for the offset, once the drift is taken out.
struct Frame {
  int64_t lower_ns = 0, upper_ns = 0;
  int64_t width_ns() const { return upper_ns - lower_ns; }
};

Frame FrameOf(std::span<const OffsetSample> samples, double drift, int64_t reference_ns) {
  constexpr std::size_t kForgiven = 2;
  std::vector<int64_t> lower, upper;
  for (const OffsetSample& sample : samples) {
    const auto drifted_ns =
        static_cast<int64_t>(drift * static_cast<double>(sample.time_ns - reference_ns));
    lower.push_back(sample.lower_ns - drifted_ns);
    upper.push_back(sample.upper_ns - drifted_ns);
  }
  std::ranges::nth_element(lower, lower.begin() + kForgiven, std::greater());
  std::ranges::nth_element(upper, upper.begin() + kForgiven);
  return {lower[kForgiven], upper[kForgiven]};
}

// The guesses' median where they agree much better than the frame is wide, else the frame's middle.
void PlaceInFrame(const Frame& frame, OffsetFit& fit) {
  constexpr int64_t kMuchBetter = 8;
  if (frame.width_ns() < 0) return;  // bounds contradict each other: more than a few wrong pairs
  if (fit.residual_ns > frame.width_ns() / kMuchBetter)
    fit.offset_ns = frame.lower_ns + frame.width_ns() / 2;
  fit.offset_ns = std::clamp(fit.offset_ns, frame.lower_ns, frame.upper_ns);
  fit.error_ns = std::max(frame.upper_ns - fit.offset_ns, fit.offset_ns - frame.lower_ns);
}

}  // namespace

std::optional<OffsetFit> FitOffset(std::span<const OffsetSample> samples) {
  if (samples.size() < kMinSamples) return std::nullopt;
  const std::vector<OffsetSample> chosen = LowerEnvelope(samples);
  const int64_t span_ns = Span(chosen);
  OffsetFit fit;
  fit.reference_ns = std::ranges::min(chosen, {}, &OffsetSample::time_ns).time_ns + span_ns / 2;
  std::tie(fit.offset_ns, fit.residual_ns) = MedianAndSpread(chosen, 0, fit.reference_ns);
  if (span_ns >= kMinDriftSpanNs && span_ns >= Span(samples) / 4) {
    const double drift = MedianSlope(chosen, span_ns);
    const auto [offset_ns, spread_ns] = MedianAndSpread(chosen, drift, fit.reference_ns);
    // A drift is believed where it explains more than the noise it leaves.
    if (std::abs(drift) * static_cast<double>(span_ns) > 4.0 * static_cast<double>(spread_ns + 1)) {
      fit.drift = drift;
      fit.offset_ns = offset_ns;
      fit.residual_ns = spread_ns;
    }
  }
  fit.error_ns = std::ranges::min(chosen, {}, &OffsetSample::round_trip_ns).round_trip_ns() / 2;
  PlaceInFrame(FrameOf(samples, fit.drift, fit.reference_ns), fit);
  fit.asymmetric = fit.error_ns > kSlowExchangeNs;
  return fit;
}

namespace {

// A clock: all processes of one node.
std::string ClockKey(const trace::ProcessInfo& process, std::size_t index) {
  if (!process.node.empty() || !process.host.empty()) return process.host + ' ' + process.node;
  return "process " + std::to_string(index);
}

// B's clock minus A's, and how it is known.
struct Relation {
  OffsetFit fit;
  ClockMethod method = ClockMethod::kUnrelated;
};

Relation Reversed(const Relation& relation) {
  Relation reversed = relation;
  reversed.fit.reference_ns = relation.fit.reference_ns + relation.fit.offset_ns;
  reversed.fit.offset_ns = -relation.fit.offset_ns;
  reversed.fit.drift = -relation.fit.drift;
  return reversed;
}

class Aligner {
 public:
  explicit Aligner(std::span<const trace::ProcessInfo> processes) : processes_(processes) {
    std::map<std::string, int> clocks;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      const auto [found, fresh] =
          clocks.emplace(ClockKey(processes[i], i), static_cast<int>(hosts_.size()));
      if (fresh) {
        hosts_.push_back(processes[i].host);
        nodes_.push_back(processes[i].node);
      }
      clock_of_.push_back(found->second);
    }
  }

  int clock_of(int process) const { return clock_of_[static_cast<std::size_t>(process)]; }

  void RelateByTicks(std::span<const trace::ClockTriple> triples);
  void RelateByProbes(std::span<const trace::ClockProbe> probes);
  void RelateByCollectives(std::span<const CollectiveRecord> records,
                           std::span<const MatchedCollective> matched,
                           const StringInterner& strings);
  Alignment Walk() const;

 private:
  void Keep(int a, int b, std::optional<OffsetFit> fit, ClockMethod method) {
    if (!fit || relations_.contains({a, b})) return;
    relations_[{a, b}] = {*fit, method};
    relations_[{b, a}] = Reversed({*fit, method});
  }

  std::span<const trace::ProcessInfo> processes_;
  std::vector<int> clock_of_;
  std::vector<std::string> hosts_, nodes_;
  std::map<std::pair<int, int>, Relation> relations_;
};

// Monotonic time of a clock at a tick count, between or beyond its readings.
int64_t MonotonicAt(const std::vector<trace::ClockTriple>& readings, uint64_t ticks) {
  auto after = std::ranges::upper_bound(readings, ticks, {}, &trace::ClockTriple::ticks);
  after = std::clamp(after, readings.begin() + 1, readings.end() - 1);
  const trace::ClockTriple &a = *(after - 1), &b = *after;
  const double rate = b.ticks == a.ticks ? 0
                                         : static_cast<double>(b.monotonic_ns - a.monotonic_ns) /
                                               static_cast<double>(b.ticks - a.ticks);
  return a.monotonic_ns + static_cast<int64_t>(std::llround(
                              rate * (static_cast<double>(ticks) - static_cast<double>(a.ticks))));
}

void Aligner::RelateByTicks(std::span<const trace::ClockTriple> triples) {
  std::map<int, std::vector<trace::ClockTriple>> readings;
  for (const trace::ClockTriple& triple : triples) {
    if (triple.process >= 0 && triple.ticks != 0)
      readings[clock_of(triple.process)].push_back(triple);
  }
  for (auto& [clock, list] : readings) std::ranges::sort(list, {}, &trace::ClockTriple::ticks);
  for (const auto& [a, readings_a] : readings) {
    for (const auto& [b, readings_b] : readings) {
      const auto host = hosts_[static_cast<std::size_t>(a)];
      if (a >= b || host.empty() || host != hosts_[static_cast<std::size_t>(b)] ||
          readings_a.size() < 2)
        continue;
      std::vector<OffsetSample> offsets;
      for (const trace::ClockTriple& reading : readings_b) {
        offsets.push_back({reading.monotonic_ns,
                           reading.monotonic_ns - MonotonicAt(readings_a, reading.ticks), 0});
      }
      const auto [offset_ns, spread_ns] = MedianAndSpread(offsets, 0, 0);
      Keep(a, b, OffsetFit{.offset_ns = offset_ns, .residual_ns = spread_ns},
           ClockMethod::kSharedTicks);
    }
  }
}

void Aligner::RelateByProbes(std::span<const trace::ClockProbe> probes) {
  const auto clock_named = [&](const std::string& node) {
    const auto found = std::ranges::find(nodes_, node);
    return found == nodes_.end() ? -1 : static_cast<int>(found - nodes_.begin());
  };
  std::map<std::pair<int, int>, std::vector<OffsetSample>> samples;
  for (const trace::ClockProbe& probe : probes) {
    const int a = clock_named(probe.from), b = clock_named(probe.to);
    if (a < 0 || b < 0 || a == b) continue;
    const int64_t upper_ns = probe.received_ns - probe.sent_ns,
                  lower_ns = probe.answered_ns - probe.returned_ns;
    OffsetSample sample{probe.sent_ns, lower_ns + (upper_ns - lower_ns) / 2, lower_ns, upper_ns};
    if (a > b) sample = {probe.received_ns, -sample.offset_ns, -upper_ns, -lower_ns};
    samples[std::minmax(a, b)].push_back(sample);
  }
  for (const auto& [pair, list] : samples)
    Keep(pair.first, pair.second, FitOffset(list), ClockMethod::kProbes);
}

void Aligner::RelateByCollectives(std::span<const CollectiveRecord> records,
                                  std::span<const MatchedCollective> matched,
                                  const StringInterner& strings) {
  std::map<std::pair<int, int>, std::vector<OffsetSample>> samples;
  for (const MatchedCollective& collective : matched) {
    if (!EndsTogether(strings.View(records[collective.records.front()].name))) continue;
    for (const std::size_t i : collective.records) {
      for (const std::size_t j : collective.records) {
        const CollectiveRecord &a = records[i], &b = records[j];
        const int clock_a = clock_of(a.process), clock_b = clock_of(b.process);
        if (clock_a >= clock_b) continue;
        samples[{clock_a, clock_b}].push_back(
            {a.end_ns, b.end_ns - a.end_ns, b.begin_ns - a.end_ns, b.end_ns - a.begin_ns});
      }
    }
  }
  for (const auto& [pair, list] : samples)
    Keep(pair.first, pair.second, FitOffset(list), ClockMethod::kCollectives);
}

// Breadth first from the base clock, so that a clock is related over as few others as possible.
Alignment Aligner::Walk() const {
  const auto lower_rank = [&](int a, int b) {
    const auto rank = [&](int process) {
      const RankId id = processes_[static_cast<std::size_t>(process)].rank;
      return id == kNoRank ? INT32_MAX : static_cast<int32_t>(id);
    };
    return rank(a) < rank(b);
  };
  Alignment alignment;
  std::vector<std::optional<ClockMap>> maps(hosts_.size());
  if (!processes_.empty()) {
    int base = 0;
    for (int i = 1; i < static_cast<int>(processes_.size()); ++i)
      base = lower_rank(i, base) ? i : base;
    maps[static_cast<std::size_t>(clock_of(base))] = ClockMap{};
    std::deque<int> queue{clock_of(base)};
    while (!queue.empty()) {
      const int a = queue.front();
      queue.pop_front();
      for (int b = 0; b < static_cast<int>(maps.size()); ++b) {
        const auto found = relations_.find({b, a});
        if (maps[static_cast<std::size_t>(b)] || found == relations_.end()) continue;
        const OffsetFit& fit = found->second.fit;  // a minus b, on b's clock
        const ClockMap& via = *maps[static_cast<std::size_t>(a)];
        const int64_t on_a_ns = fit.reference_ns + fit.offset_ns;
        maps[static_cast<std::size_t>(b)] =
            ClockMap{via.ToBase(on_a_ns) - fit.reference_ns, fit.drift + via.drift,
                     fit.reference_ns, via.error_ns + fit.error_ns, found->second.method};
        queue.push_back(b);
        alignment.residual_ns = std::max(alignment.residual_ns, fit.residual_ns);
        if (fit.asymmetric) {
          alignment.notes.push_back(
              fmt::format("clock of {}: even the best exchange leaves {} of doubt; a delay in one "
                          "direction during the "
                          "whole run cannot be told from an offset",
                          nodes_[static_cast<std::size_t>(b)], FormatDuration(fit.error_ns)));
        }
      }
    }
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const auto& map = maps[static_cast<std::size_t>(clock_of_[i])];
    alignment.processes.push_back(map.value_or(ClockMap{.method = ClockMethod::kUnrelated}));
  }
  return alignment;
}

}  // namespace

Alignment AlignClocks(std::span<const trace::ProcessInfo> processes,
                      std::span<const trace::ClockTriple> triples,
                      std::span<const trace::ClockProbe> probes,
                      std::span<const CollectiveRecord> records, const StringInterner& strings,
                      const AlignOptions& options) {
  Aligner aligner(processes);
  const std::vector<MatchedCollective> matched = MatchCollectives(records);
  if (options.shared_ticks) aligner.RelateByTicks(triples);
  if (options.probes) aligner.RelateByProbes(probes);
  if (options.collectives) aligner.RelateByCollectives(records, matched, strings);
  Alignment alignment = aligner.Walk();
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (alignment.processes[i].method != ClockMethod::kUnrelated) continue;
    alignment.aligned = false;
    alignment.notes.push_back(
        fmt::format("the clock of process {} (rank {}) cannot be related to the others: no shared "
                    "host, no probes, no matched collectives",
                    i, static_cast<int32_t>(processes[i].rank)));
  }
  return alignment;
}

}  // namespace teller::reconstruct
