#include "src/dataset/label_steps.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "src/dataset/step_scale.h"
#include "src/reconstruct/symbol.h"

namespace teller::dataset {
namespace {

using reconstruct::RunForest;
using reconstruct::StepForest;
using reconstruct::StepNode;

// Delay and node begin are stamped one after the other: what lies so close belongs together.
constexpr int64_t kStampSlackNs = 20'000;

// A planned stretch on the base clock.
struct Stretch {
  const TruthPlan* plan = nullptr;
  std::string symbol;  // normalised culprit
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  bool ended = false;
  int64_t acted_ns = 0;

  bool Acted() const { return acted_ns > 0 || plan->acted; }
  bool Began() const { return begin_ns != INT64_MAX; }
};

struct Action {
  std::size_t stretch = 0;
  RankId rank = kNoRank;
  int64_t begin_ns = 0, end_ns = 0;
  ActionPlace place{};
};

int64_t Overlap(int64_t a_begin, int64_t a_end, int64_t b_begin, int64_t b_end) {
  return std::max<int64_t>(std::min(a_end, b_end) - std::max(a_begin, b_begin), 0);
}

// Truth on the base clock.
class BaseTruth {
 public:
  BaseTruth(const Truth& truth, const NodeClocks& clocks, LabelStats& stats)
      : clocks_(clocks), stats_(stats) {
    for (const TruthPlan& plan : truth.plans) {
      stretches.push_back(
          {.plan = &plan,
           .symbol = plan.culprit_symbol.empty()
                         ? std::string()
                         : reconstruct::NormalizeSymbol(plan.culprit_symbol, plan.culprit_layer)});
      by_plan_[plan.plan_id] = stretches.size() - 1;
    }
    for (const TruthEdge& edge : truth.edges) AddEdge(edge);
    for (Stretch& stretch : stretches) {
      if (stretch.Began() && !stretch.ended) stretch.end_ns = INT64_MAX;  // the run ended inside it
    }
    for (const TruthAction& action : truth.actions) AddAction(action);
    std::ranges::sort(actions, {}, &Action::begin_ns);
    for (const TruthWindow& window : truth.calibration) {
      calibration.emplace_back(ToBase(window.node, window.begin_ns),
                               ToBase(window.node, window.end_ns));
    }
  }

  std::vector<Stretch> stretches;
  std::vector<Action> actions;  // by begin
  std::vector<std::pair<int64_t, int64_t>> calibration;

 private:
  int64_t ToBase(const std::string& node, int64_t time_ns) {
    const auto found = clocks_.find(node);
    if (found != clocks_.end()) return found->second.ToBase(time_ns);
    ++stats_["truth_times_of_unknown_nodes"];
    return time_ns;
  }

  void AddEdge(const TruthEdge& edge) {
    Stretch& stretch = stretches[by_plan_.at(edge.plan_id)];
    const int64_t time_ns = ToBase(edge.node, edge.time_ns);
    if (edge.begin) {
      stretch.begin_ns = std::min(stretch.begin_ns, time_ns);
    } else {
      stretch.end_ns = std::max(stretch.end_ns, time_ns);
      stretch.ended = true;
    }
  }

  void AddAction(const TruthAction& action) {
    const std::size_t index = by_plan_.at(action.plan_id);
    const int64_t begin_ns = ToBase(action.node, action.begin_ns),
                  end_ns = ToBase(action.node, action.end_ns);
    if (stretches[index].plan->placebo) {
      if (end_ns > begin_ns) ++stats_["placebo_actions_ignored"];
      return;
    }
    stretches[index].acted_ns += end_ns - begin_ns;
    if (stretches[index].plan->by_stretch) return;
    actions.push_back({index, action.rank, begin_ns, end_ns, action.place});
  }

  const NodeClocks& clocks_;
  LabelStats& stats_;
  std::map<int32_t, std::size_t> by_plan_;
};

// Time recorded in one step: by rank position, and by stretch.
struct Recorded {
  std::vector<int64_t> by_rank_ns;
  std::map<std::size_t, int64_t> by_stretch_ns;
  std::vector<const Action*> actions;
};

class Labeller {
 public:
  Labeller(const RunForest& run, BaseTruth& truth, LabelStats& stats, const LabelOptions& options)
      : run_(run), truth_(truth), stats_(stats), options_(options) {
    const bool calibrated =
        std::ranges::any_of(run.steps, [&](const StepForest& s) { return InCalibration(s); });
    if (!calibrated && !run.steps.empty()) ++stats_["runs_without_calibration_steps"];
    for (const StepForest& step : run.steps) {
      const bool healthy = calibrated ? InCalibration(step) : StretchAround(step) == nullptr;
      if (healthy) scale_.Add(step, step.end_ns - step.begin_ns);
    }
    scale_.Fit();
    MeasureRecovery();
  }

  std::vector<StepLabel> Label() {
    std::vector<StepLabel> labels;
    std::size_t used = 0;
    for (const StepForest& step : run_.steps) {
      const Recorded recorded = RecordedIn(step);
      used += recorded.actions.size();
      labels.push_back(LabelOf(step, recorded));
    }
    if (used < truth_.actions.size()) {
      stats_["actions_outside_steps"] += static_cast<int64_t>(truth_.actions.size() - used);
    }
    return labels;
  }

 private:
  bool InCalibration(const StepForest& step) const {
    return std::ranges::any_of(truth_.calibration, [&](const auto& window) {
      return step.begin_ns < window.second && step.end_ns > window.first;
    });
  }

  Recorded RecordedIn(const StepForest& step) const {
    Recorded recorded;
    recorded.by_rank_ns.assign(step.ranks.size(), 0);
    // Actions are far shorter than a second, so that few are looked at.
    auto action = std::ranges::lower_bound(truth_.actions, step.begin_ns - longest_ns_, {},
                                           &Action::begin_ns);
    for (; action != truth_.actions.end() && action->begin_ns < step.end_ns; ++action) {
      for (std::size_t r = 0; r < step.ranks.size(); ++r) {
        if (step.ranks[r] != action->rank) continue;
        const int64_t inside_ns =
            Overlap(action->begin_ns, action->end_ns, step.rank_begin_ns[r], step.rank_end_ns[r]);
        if (inside_ns == 0) continue;
        recorded.by_rank_ns[r] += inside_ns;
        recorded.by_stretch_ns[action->stretch] += inside_ns;
        recorded.actions.push_back(&*action);
      }
    }
    return recorded;
  }

  int64_t ThresholdNs(const StepForest& step) const {
    const auto share_ns =
        static_cast<int64_t>(options_.fraction * static_cast<double>(scale_.Of(step).median_ns));
    return std::max(options_.floor_ns, share_ns);
  }

  StepLabel LabelOf(const StepForest& step, const Recorded& recorded) const {
    StepLabel label;
    label.recorded_ns = recorded.by_rank_ns;
    if (InCalibration(step)) label.reasons |= kReasonCalibration;
    if (const Stretch* edge = StretchWithEdgeIn(step)) {
      SetStretch(*edge, label);
      label.status = LabelStatus::kGrey;
      label.reasons |= kReasonEdge;
      return label;
    }
    const int64_t most_ns = recorded.by_rank_ns.empty() ? 0 : std::ranges::max(recorded.by_rank_ns);
    if (most_ns > 0) {
      SetFault(step, recorded, most_ns >= ThresholdNs(step), label);
    } else if (const Stretch* recovering = StretchRecoveringAt(step)) {
      SetStretch(*recovering, label);
      label.status = LabelStatus::kGrey;
      label.reasons |= kReasonRecovery;
    } else if (const Stretch* around = StretchAround(step)) {
      SetStretch(*around, label);
      SetIdleReasons(*around, label);
    }
    return label;
  }

  // Inside a stretch, without a recorded action.
  static void SetIdleReasons(const Stretch& stretch, StepLabel& label) {
    if (stretch.plan->placebo) {
      label.reasons |= kReasonPlacebo;
      return;
    }
    label.reasons |= stretch.plan->by_stretch ? kReasonByStretch : kReasonNoAction;
    if (!stretch.Acted()) label.reasons |= kReasonIneffective;
    if (stretch.plan->by_stretch && stretch.Acted()) label.status = LabelStatus::kGrey;
  }

  static void SetStretch(const Stretch& stretch, StepLabel& label) {
    label.stretch = stretch.plan->stretch;
    label.plan_id = stretch.plan->plan_id;
  }

  void SetFault(const StepForest& step, const Recorded& recorded, bool positive,
                StepLabel& label) const {
    const auto most = std::ranges::max_element(recorded.by_stretch_ns, {},
                                               [](const auto& entry) { return entry.second; });
    const Stretch& stretch = truth_.stretches[most->first];
    SetStretch(stretch, label);
    label.status = positive ? LabelStatus::kPositive : LabelStatus::kGrey;
    if (!positive) label.reasons |= kReasonBelow;
    label.kind = stretch.plan->kind;
    label.family = stretch.plan->family;
    label.view = stretch.plan->view;
    label.level = stretch.plan->level;
    label.culprit_rank = stretch.plan->culprit_rank;
    label.culprit_layer = stretch.plan->culprit_layer;
    label.culprit_symbol = stretch.symbol;
    for (const Action* action : recorded.actions) {
      if (action->stretch == most->first) AddHit(step, stretch, *action, label);
    }
  }

  // The culprit's node that the action lies in, or the next one after it.
  void AddHit(const StepForest& step, const Stretch& stretch, const Action& action,
              StepLabel& label) const {
    if (stretch.symbol.empty()) return;
    const auto rank =
        static_cast<std::size_t>(std::ranges::find(step.ranks, action.rank) - step.ranks.begin());
    const int64_t begin_ns = action.begin_ns - step.rank_begin_ns[rank],
                  end_ns = action.end_ns - step.rank_begin_ns[rank];
    std::optional<std::size_t> best;
    int64_t best_distance_ns = INT64_MAX;
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
      const StepNode& node = step.nodes[i];
      if (step.tracks[node.track].rank != action.rank || !IsCulprit(node, stretch)) continue;
      const int64_t node_end_ns = node.begin_ns + node.duration_ns;
      const bool fits = action.place == ActionPlace::kBefore
                            ? node.begin_ns >= end_ns - kStampSlackNs
                            : Overlap(begin_ns, end_ns, node.begin_ns, node_end_ns) > 0;
      const int64_t distance_ns = action.place == ActionPlace::kBefore
                                      ? node.begin_ns - end_ns
                                      : -Overlap(begin_ns, end_ns, node.begin_ns, node_end_ns);
      if (fits && distance_ns < best_distance_ns)
        std::tie(best, best_distance_ns) = std::pair(i, distance_ns);
    }
    if (!best) return;
    const NodeId id{static_cast<int32_t>(*best)};
    if (std::ranges::find(label.hit_nodes, id) == label.hit_nodes.end())
      label.hit_nodes.push_back(id);
  }

  bool IsCulprit(const StepNode& node, const Stretch& stretch) const {
    if (run_.symbols.View(StringId{static_cast<uint32_t>(Index(node.symbol))}) != stretch.symbol)
      return false;
    return stretch.plan->culprit_layer.empty() ||
           LayerName(node.layer) == stretch.plan->culprit_layer;
  }

  const Stretch* StretchWithEdgeIn(const StepForest& step) const {
    const auto holds = [&](int64_t time_ns) {
      return step.begin_ns < time_ns && time_ns < step.end_ns;
    };
    const auto found = std::ranges::find_if(truth_.stretches, [&](const Stretch& s) {
      return s.Began() && (holds(s.begin_ns) || holds(s.end_ns));
    });
    return found == truth_.stretches.end() ? nullptr : &*found;
  }

  const Stretch* StretchAround(const StepForest& step) const {
    const auto found = std::ranges::find_if(truth_.stretches, [&](const Stretch& s) {
      return s.Began() && s.begin_ns <= step.begin_ns && step.end_ns <= s.end_ns;
    });
    return found == truth_.stretches.end() ? nullptr : &*found;
  }

  const Stretch* StretchRecoveringAt(const StepForest& step) const {
    for (std::size_t i = 0; i < truth_.stretches.size(); ++i) {
      if (truth_.stretches[i].end_ns <= step.begin_ns && step.begin_ns < recovered_ns_[i])
        return &truth_.stretches[i];
    }
    return nullptr;
  }

  bool IsHealthy(const StepForest& step) const {
    const StepScale::Row& row = scale_.Of(step);
    return scale_.LogRatio(step, step.end_ns - step.begin_ns) <=
           options_.healthy_spreads * row.log_spread;
  }

  // When each stretch was over in effect: the begin of the first of several healthy steps in a row.
  void MeasureRecovery() {
    for (const Action& action : truth_.actions)
      longest_ns_ = std::max(longest_ns_, action.end_ns - action.begin_ns);
    for (const Stretch& stretch : truth_.stretches) {
      recovered_ns_.push_back(stretch.acted_ns > 0 && stretch.ended ? RecoveredAt(stretch.end_ns)
                                                                    : stretch.end_ns);
    }
  }

  int64_t RecoveredAt(int64_t end_ns) const {
    auto step = std::ranges::lower_bound(run_.steps, end_ns, {}, &StepForest::begin_ns);
    int healthy = 0;
    int64_t since_ns = end_ns;
    for (; step != run_.steps.end() && step->begin_ns - end_ns < options_.recovery_ns; ++step) {
      if (!IsHealthy(*step)) {
        healthy = 0;
        continue;
      }
      if (healthy++ == 0) since_ns = step->begin_ns;
      if (healthy == options_.recovery_steps) return since_ns;
    }
    return end_ns + options_.recovery_ns;
  }

  const RunForest& run_;
  const BaseTruth& truth_;
  LabelStats& stats_;
  LabelOptions options_;
  StepScale scale_;
  int64_t longest_ns_ = 0;
  std::vector<int64_t> recovered_ns_;  // by stretch
};

}  // namespace

std::vector<StepLabel> LabelSteps(const RunForest& run, const Truth& truth,
                                  const NodeClocks& clocks, LabelStats& stats,
                                  const LabelOptions& options) {
  if (truth.lost > 0) stats["evidence_lost"] += truth.lost;
  if (truth.unknown_lines > 0) stats["truth_lines_unknown"] += truth.unknown_lines;
  BaseTruth base(truth, clocks, stats);
  return Labeller(run, base, stats, options).Label();
}

}  // namespace teller::dataset
