#include "src/diagnose/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "src/diagnose/sentence.h"
#include "src/localize/readings.h"
#include "src/reconstruct/log_template.h"

namespace teller::diagnose {
namespace {

using reconstruct::StepForest;
using reconstruct::StepNode;

class Gatherer {
 public:
  Gatherer(const StepForest& step, const StringInterner& symbols, const EvidenceOptions& options)
      : step_(step), symbols_(symbols), options_(options) {}

  std::string NameOf(NodeId node) const {
    return std::string(
        symbols_.View(StringId{static_cast<uint32_t>(Index(step_.nodes[Index(node)].symbol))}));
  }

  Suspect FromCandidate(const localize::Candidate& candidate) const {
    const StepNode& node = step_.nodes[Index(candidate.node)];
    Suspect suspect{.rank = candidate.rank,
                    .peer = candidate.peer,
                    .op = NameOf(candidate.node),
                    .layer = node.layer,
                    .node = candidate.node,
                    .measure = candidate.measure,
                    .observed_ns = candidate.observed_ns,
                    .expected_ns = candidate.expected_ns,
                    .strength = candidate.z};
    if (!std::isnan(candidate.p_value)) suspect.p_value = candidate.p_value;
    suspect.late_start = candidate.measure == localize::Measure::kGapBefore &&
                         candidate.observed_ns != node.gap_before_ns &&
                         (IsLastStarter(candidate.node) || IsStep(node));
    return suspect;
  }

  std::vector<Suspect> FromLocalizer(const localize::StepSuspects& suspects) const {
    std::vector<Suspect> result;
    for (const localize::Candidate& candidate : suspects.candidates) {
      if (Exists(candidate.node)) result.push_back(FromCandidate(candidate));
    }
    return result;
  }

  /// Puts the model's first guess first, with the localiser's times where it has them.
  void PutGuessFirst(const dataset::OperatorGuess& guess, std::vector<Suspect>& suspects) const {
    const auto same = [&](const Suspect& s) {
      return s.rank == guess.rank && s.op == guess.symbol;
    };
    const auto found = std::find_if(suspects.begin(), suspects.end(), same);
    if (found != suspects.end()) {
      std::rotate(suspects.begin(), found, found + 1);
    } else if (Exists(guess.node) && NameOf(guess.node) == guess.symbol) {
      const StepNode& node = step_.nodes[Index(guess.node)];
      const Suspect own{.rank = guess.rank,
                        .op = guess.symbol,
                        .layer = node.layer,
                        .node = guess.node,
                        .observed_ns = node.duration_ns};
      suspects.insert(suspects.begin(), own);
    }
  }

  /// Time that other ranks spent in collectives before `culprit`, who came last.
  std::vector<PeerWait> WaitsFor(RankId culprit) const {
    std::map<RankId, std::map<std::string, int64_t>> waited;
    const localize::StepReadings read = localize::ReadStep(step_);
    for (const localize::Reading& reading : read.readings) {
      if (reading.measure != localize::Measure::kWait) continue;
      const NodeId starter = read.last_starter[Index(reading.node)];
      if (starter == kNoNode || starter == reading.node || RankOf(starter) != culprit) continue;
      waited[RankOf(reading.node)][NameOf(reading.node)] += reading.observed_ns;
    }
    std::vector<PeerWait> waits;
    for (const auto& [rank, by_op] : waited) {
      const auto longest =
          std::max_element(by_op.begin(), by_op.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      waits.push_back({rank, longest->first, longest->second});
    }
    std::stable_sort(waits.begin(), waits.end(), [](const PeerWait& a, const PeerWait& b) {
      return a.waited_ns > b.waited_ns;
    });
    return waits;
  }

  /// Warnings and errors before the rest, lines of the blamed rank first, rare ones before what is
  /// said all the time, then by time.
  std::vector<EvidenceLine> Logs(RankId first, const LogForms& forms) const {
    std::vector<EvidenceLine> lines;
    for (const auto& line : step_.logs)
      lines.push_back({line.rank, line.offset_ns, line.text, forms.LinesLike(line.text)});
    const auto order = [first](const EvidenceLine& line) {
      const bool loud = line.text.find("WARN") != std::string::npos ||
                        line.text.find("ERROR") != std::string::npos;
      return std::tuple(!loud, line.rank != first, line.of_its_form);
    };
    std::stable_sort(lines.begin(), lines.end(), [&](const EvidenceLine& a, const EvidenceLine& b) {
      return order(a) < order(b);
    });
    if (lines.size() > options_.logs) lines.resize(options_.logs);
    return lines;
  }

 private:
  bool IsStep(const StepNode& node) const {
    const auto& track = step_.tracks[node.track];
    return node.parent == kNoNode && track.track == 0 && !track.device;
  }
  bool IsLastStarter(NodeId node) const {
    return std::any_of(step_.edges.begin(), step_.edges.end(), [&](const auto& edge) {
      return edge.type == reconstruct::EdgeType::kCollective && edge.from == node;
    });
  }
  bool Exists(NodeId node) const { return node != kNoNode && Index(node) < step_.nodes.size(); }
  RankId RankOf(NodeId node) const { return step_.tracks[step_.nodes[Index(node)].track].rank; }

  const StepForest& step_;
  const StringInterner& symbols_;
  const EvidenceOptions& options_;
};

void ReadPrediction(const dataset::StepPrediction& prediction,
                    const std::vector<std::string>& kinds, StepDiagnosis& diagnosis) {
  if (!std::isnan(prediction.probability)) diagnosis.probability = prediction.probability;
  const auto& all = prediction.kind_probability;
  if (all.empty() || all.size() != kinds.size()) return;
  const auto best = std::max_element(all.begin(), all.end()) - all.begin();
  diagnosis.kind_probability = all[static_cast<std::size_t>(best)];
  diagnosis.fault_kind = kinds[static_cast<std::size_t>(best)];
}

/// Waits shorter than a share of the excess explain nothing.
void KeepTellingWaits(StepDiagnosis& diagnosis, double share) {
  const Suspect& first = diagnosis.suspects.front();
  const double excess = static_cast<double>(first.observed_ns - first.expected_ns.value_or(0));
  std::erase_if(diagnosis.waits, [&](const PeerWait& wait) {
    return !(static_cast<double>(wait.waited_ns) >= share * std::max(1.0, excess));
  });
}

}  // namespace

LogForms::LogForms(const reconstruct::RunForest& run) {
  std::vector<std::string> lines;
  for (const StepForest& step : run.steps) {
    for (const auto& line : step.logs) lines.push_back(line.text);
  }
  const reconstruct::LogTemplates mined = reconstruct::MineTemplates(lines);
  for (std::size_t i = 0; i < lines.size(); ++i)
    by_text_[lines[i]] = mined.templates[static_cast<std::size_t>(mined.of[i])].lines;
}

int64_t LogForms::LinesLike(const std::string& text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? 0 : found->second;
}

StepDiagnosis GatherEvidence(const StepForest& step, const StringInterner& symbols,
                             const localize::StepSuspects& suspects, bool abnormal,
                             const dataset::StepPrediction* prediction,
                             const std::vector<std::string>& kinds, const LogForms& forms,
                             const EvidenceOptions& options) {
  const Gatherer gatherer(step, symbols, options);
  StepDiagnosis diagnosis;
  diagnosis.engine_step = step.engine_step;
  diagnosis.begin_ns = step.begin_ns;
  diagnosis.end_ns = step.end_ns;
  diagnosis.score = suspects.score;
  diagnosis.abnormal = abnormal;
  diagnosis.undecided = suspects.undecided;
  diagnosis.suspects = gatherer.FromLocalizer(suspects);
  if (prediction != nullptr) {
    ReadPrediction(*prediction, kinds, diagnosis);
    const auto& guesses = prediction->operators;
    if (!guesses.empty() && !guesses.front().symbol.empty()) {
      gatherer.PutGuessFirst(guesses.front(), diagnosis.suspects);
    }
  }
  if (diagnosis.suspects.size() > options.suspects) diagnosis.suspects.resize(options.suspects);
  if (abnormal && !diagnosis.suspects.empty()) {
    const Suspect& first = diagnosis.suspects.front();
    if (first.peer == kNoRank && options.waits) diagnosis.waits = gatherer.WaitsFor(first.rank);
    KeepTellingWaits(diagnosis, options.wait_share);
    diagnosis.logs = gatherer.Logs(first.rank, forms);
  }
  diagnosis.explanation = Explain(diagnosis);
  return diagnosis;
}

}  // namespace teller::diagnose
