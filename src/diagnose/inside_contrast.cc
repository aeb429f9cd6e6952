#include "src/diagnose/inside_contrast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "src/diagnose/device_idle.h"
#include "src/diagnose/expectations.h"
#include "src/diagnose/late_starters.h"
#include "src/diagnose/late_starts.h"
#include "src/localize/baseline.h"
#include "src/localize/readings.h"
#include "src/localize/robust.h"

namespace teller::diagnose {
namespace {

using localize::Candidate;
using localize::Measure;
using localize::Reading;
using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr float kFarSpreads = 6, kFarRatio = 1.5f;
constexpr int64_t kFarLateness = 3;  // times as late as usual
constexpr float kTightSpread =
    0.2f;  // times of one operator anywhere that differ so little are one
constexpr uint32_t kManySamples = 50;
constexpr float kFarFromPlace = 3;  // times as long as elsewhere at the same place

/// What costs less is no suspect.
int64_t LeastCost(const StepForest& step, const InsideOptions& options) {
  return static_cast<int64_t>(options.least_share *
                              static_cast<double>(step.end_ns - step.begin_ns));
}

/// A candidate with what it cost and whether that settles anything.
struct Weighed {
  Candidate candidate;
  int64_t cost_ns = 0;
  bool settled = false;
};

/// How late ranks usually are: at the same collective of at least three steps, else at all
/// collectives of the trace where there are at least four.
class UsualLateness {
 public:
  void Add(const StepForest& step, const std::vector<LateStart>& starts) {
    std::map<SymbolId, int32_t> seen;
    for (const LateStart& start : starts) {
      at_place_[PlaceOf(step, start, seen)].push_back(static_cast<float>(start.late_ns));
      anywhere_.push_back(static_cast<float>(start.late_ns));
    }
  }
  /// By position in `starts`.
  std::vector<int64_t> Of(const StepForest& step, const std::vector<LateStart>& starts) const {
    std::map<SymbolId, int32_t> seen;
    std::vector<int64_t> usual;
    for (const LateStart& start : starts) {
      const auto& place = at_place_.at(PlaceOf(step, start, seen));
      usual.push_back(place.size() >= 3 ? MedianOf(place)
                                        : (anywhere_.size() >= 4 ? MedianOf(anywhere_) : 0));
    }
    return usual;
  }

 private:
  using Place = std::pair<SymbolId, int32_t>;

  static Place PlaceOf(const StepForest& step, const LateStart& start,
                       std::map<SymbolId, int32_t>& seen) {
    const SymbolId symbol = step.nodes[Index(start.collective)].symbol;
    return {symbol, seen[symbol]++};
  }
  static int64_t MedianOf(std::vector<float> values) {
    return static_cast<int64_t>(localize::Median(values));
  }

  std::map<Place, std::vector<float>> at_place_;
  std::vector<float> anywhere_;
};

/// What is known of a step before it is judged.
struct StepView {
  localize::StepReadings readings;
  std::vector<LateStart> late_starts;
};

class StepContrast {
 public:
  StepContrast(const StepForest& step, const StepView& view, const Expectations& expectations,
               const UsualLateness& lateness, const dataset::StepsFile& steps,
               const InsideOptions& options)
      : step_(step),
        readings_(view.readings),
        late_starts_(view.late_starts),
        expectations_(expectations),
        lateness_(lateness),
        clock_error_ns_(dataset::ClockErrorNs(steps)),
        aligned_(steps.clock_aligned),
        options_(options),
        length_ns_(std::max<int64_t>(1, step.end_ns - step.begin_ns)) {}

  std::vector<Weighed> Run() {
    AddLateStarts();
    for (const Reading& reading : readings_.readings) AddReading(reading);
    std::vector<Weighed> kept;
    for (auto& [key, weighed] : found_) {
      if (Share(weighed.cost_ns) >= options_.least_share) kept.push_back(weighed);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const Weighed& a, const Weighed& b) {
      return std::tuple(a.settled, a.cost_ns) > std::tuple(b.settled, b.cost_ns);
    });
    if (kept.size() > options_.suspects) kept.resize(options_.suspects);
    return kept;
  }
  double Share(int64_t cost_ns) const {
    return static_cast<double>(cost_ns) / static_cast<double>(length_ns_);
  }
  std::size_t compared() const { return compared_; }
  bool undecided() const { return undecided_; }

 private:
  using Key = std::tuple<RankId, SymbolId, trace::Layer, Measure>;

  RankId RankOf(NodeId node) const { return step_.tracks[step_.nodes[Index(node)].track].rank; }
  Key KeyOf(NodeId node, Measure measure) const {
    const StepNode& at = step_.nodes[Index(node)];
    return {RankOf(node), at.symbol, at.layer, measure};
  }

  /// Costs of one operator of a rank add up; its worst instance is shown.
  void Add(const Candidate& candidate, int64_t cost_ns, bool settled) {
    Weighed& weighed = found_[KeyOf(candidate.node, candidate.measure)];
    const int64_t before_ns =
        weighed.candidate.observed_ns - std::max<int64_t>(0, weighed.candidate.expected_ns);
    if (weighed.cost_ns == 0 || candidate.observed_ns - candidate.expected_ns > before_ns)
      weighed.candidate = candidate;
    weighed.cost_ns += cost_ns;
    weighed.settled |= settled;
  }

  void AddLateStarts() {
    const auto least_ns = LeastCost(step_, options_);
    const std::vector<int64_t> usual_ns = lateness_.Of(step_, late_starts_);
    for (std::size_t i = 0; i < late_starts_.size(); ++i) {
      const LateStart& start = late_starts_[i];
      if (start.late_ns - usual_ns[i] < least_ns || start.late_ns < kFarLateness * usual_ns[i])
        continue;
      if (start.late_ns <= clock_error_ns_) {
        undecided_ = true;
      } else {
        AddLateStart(start, start.late_ns - usual_ns[i]);
      }
    }
  }
  void AddLateStart(const LateStart& start, int64_t cost_ns) {
    Candidate candidate{.node = start.collective, .rank = start.rank};
    candidate.measure = Measure::kGapBefore;
    candidate.observed_ns = start.late_ns;
    if (start.cause) {
      candidate.node = start.cause->node;
      candidate.measure = start.cause->measure;
      candidate.observed_ns = start.cause->observed_ns;
      candidate.expected_ns = start.cause->expected_ns;
    }
    Add(candidate, cost_ns, start.late_ns > 2 * clock_error_ns_);
    blamed_.insert(KeyOf(candidate.node, candidate.measure));
  }

  void AddReading(const Reading& reading) {
    if (reading.measure == Measure::kWait || reading.measure == Measure::kStep) return;
    if (reading.measure == Measure::kTransfer && !aligned_) return;
    // Between steps an engine may simply have nothing to do.
    const bool between_steps = step_.nodes[Index(reading.node)].parent == kNoNode;
    if (reading.measure == Measure::kGapBefore && between_steps) return;
    const auto expected = expectations_.Of(step_, reading);
    if (!expected) return;
    ++compared_;
    const int64_t excess_ns = reading.observed_ns - expected->median_ns;
    const float apart =
        localize::LogTime(reading.observed_ns) - localize::LogTime(expected->median_ns);
    if (apart < std::log(kFarRatio) || apart < kFarSpreads * expected->spread) return;
    // A gap or a late launch elsewhere in the step says nothing of this place.
    const bool of_structure = !expected->same_place && (reading.measure == Measure::kGapBefore ||
                                                        reading.measure == Measure::kLaunchDelay);
    if (of_structure || blamed_.contains(KeyOf(reading.node, reading.measure))) return;
    Candidate candidate{.node = reading.node, .rank = RankOf(reading.node)};
    candidate.measure = reading.measure;
    candidate.observed_ns = reading.observed_ns;
    candidate.expected_ns = expected->median_ns;
    if (reading.measure == Measure::kTransfer) BlameLink(candidate);
    Add(candidate, excess_ns, Settles(reading, *expected));
  }

  /// Whether more than the operator's place or size may explain the difference.
  bool Settles(const Reading& reading, const Expectation& expected) const {
    const StepNode& node = step_.nodes[Index(reading.node)];
    if (reading.measure == Measure::kTransfer) return node.bytes >= 0;
    if (expected.same_place) return true;
    if (expected.least_at_place_ns)
      return localize::LogTime(reading.observed_ns) -
                 localize::LogTime(*expected.least_at_place_ns) >
             std::log(kFarFromPlace);
    // A call of the runtime takes what it takes wherever it stands.
    const bool alike = expected.samples >= kManySamples && expected.spread <= kTightSpread;
    return alike && (node.layer == trace::Layer::kHostApi || IsNearlyAlone(expected));
  }
  /// The operator is most of what the trace measures: there is hardly any structure.
  bool IsNearlyAlone(const Expectation& expected) const {
    return 4 * static_cast<std::size_t>(expected.samples) > readings_.readings.size();
  }
  /// Of two ranks the link is the one between them.
  void BlameLink(Candidate& candidate) const {
    if (step_.ranks.size() != 2) return;
    candidate.peer = candidate.rank == step_.ranks[0] ? step_.ranks[1] : step_.ranks[0];
  }

  const StepForest& step_;
  const localize::StepReadings& readings_;
  const std::vector<LateStart>& late_starts_;
  const Expectations& expectations_;
  const UsualLateness& lateness_;
  const int64_t clock_error_ns_;
  const bool aligned_;
  const InsideOptions& options_;
  const int64_t length_ns_;
  std::map<Key, Weighed> found_;
  std::set<Key> blamed_;  // by their lateness: not counted again
  std::size_t compared_ = 0;
  bool undecided_ = false;
};

localize::StepSuspects Describe(const StepContrast& contrast, std::vector<Weighed> found) {
  localize::StepSuspects suspects;
  suspects.p_value = std::numeric_limits<float>::quiet_NaN();
  suspects.undecided = contrast.undecided();
  for (Weighed& weighed : found) {
    weighed.candidate.z = static_cast<float>(100 * contrast.Share(weighed.cost_ns));
    weighed.candidate.p_value = std::numeric_limits<float>::quiet_NaN();
    suspects.candidates.push_back(weighed.candidate);
  }
  if (!suspects.candidates.empty()) suspects.score = suspects.candidates.front().z;
  return suspects;
}

/// All that steps are held against, and the steps' own views.
struct TraceView {
  std::vector<StepView> steps;
  Expectations expectations;
  UsualLateness lateness;
};

TraceView Look(const dataset::StepsFile& steps, const InsideOptions& options) {
  TraceView trace{.steps = std::vector<StepView>(steps.run.steps.size())};
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    if (!steps.forest[s]) continue;
    const StepForest& step = steps.run.steps[s];
    StepView& view = trace.steps[s];
    view.readings = localize::ReadStep(step);
    DropBusyLaunchDelays(step, view.readings.readings);
    trace.expectations.Add(step, view.readings.readings);
    if (!steps.clock_aligned || step.ranks.size() < 2) continue;
    view.late_starts = FindLateStarts(
        step, view.readings,
        {.least_ns = LeastCost(step, options), .steps_begin_together = !IsWholeTrace(steps)});
    trace.lateness.Add(step, view.late_starts);
  }
  trace.expectations.Seal();
  return trace;
}

}  // namespace

InsideContrast ContrastInside(const dataset::StepsFile& steps, const InsideOptions& options) {
  const std::size_t count = steps.run.steps.size();
  const TraceView trace = Look(steps, options);
  InsideContrast inside{.suspects = std::vector<localize::StepSuspects>(count),
                        .abnormal = std::vector<uint8_t>(count),
                        .doubtful = std::vector<uint8_t>(count)};
  std::size_t compared = 0, all = 0;
  for (std::size_t s = 0; s < count; ++s) {
    if (!steps.forest[s]) continue;
    StepContrast contrast(steps.run.steps[s], trace.steps[s], trace.expectations, trace.lateness,
                          steps, options);
    std::vector<Weighed> found = contrast.Run();
    for (const Weighed& weighed : found) {
      const bool large = contrast.Share(weighed.cost_ns) >= options.abnormal_share;
      if (large) (weighed.settled ? inside.abnormal : inside.doubtful)[s] = 1;
    }
    inside.suspects[s] = Describe(contrast, std::move(found));
    compared += contrast.compared();
    all += trace.steps[s].readings.readings.size();
  }
  if (all > 0) inside.compared_share = static_cast<double>(compared) / static_cast<double>(all);
  return inside;
}

}  // namespace teller::diagnose
