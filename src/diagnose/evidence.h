#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/predictions_file.h"
#include "src/localize/candidates.h"
#include "src/reconstruct/step_forest.h"
#include "src/trace/event.h"

namespace teller::diagnose {

/// A place in the step that is blamed, with what was measured there. Everything in it is in the
/// trace or the baseline.
struct Suspect {
  RankId rank = kNoRank;
  RankId peer = kNoRank;  ///< set where a link is blamed
  std::string op;         ///< normalised symbol
  trace::Layer layer{};
  NodeId node = kNoNode;
  localize::Measure measure{};
  int64_t observed_ns = 0;
  std::optional<int64_t> expected_ns;  ///< none: no healthy time is known for it
  std::optional<float> p_value;        ///< none where no healthy steps tell it
  std::optional<float> strength;  ///< the candidate's z (RunDiagnosis::basis says of what); none
                                  ///< where the localiser did not name it
  bool late_start = false;  ///< the observed time is how long after the other ranks it entered a
                            ///< collective
};

/// How long one rank waited in collectives that the blamed rank entered last.
struct PeerWait {
  RankId rank = kNoRank;
  std::string op;  ///< the collective waited in longest
  int64_t waited_ns = 0;
};

struct EvidenceLine {
  RankId rank = kNoRank;
  int64_t offset_ns = 0;  ///< from the step's begin
  std::string text;
  int64_t of_its_form = 0;  ///< lines of its template in the run; 0: not counted
};

/// What is known of one step.
struct StepDiagnosis {
  int64_t engine_step = 0;
  int64_t begin_ns = 0, end_ns = 0;
  double score = 0;
  bool abnormal = false;
  bool undecided = false;             ///< who started last cannot be told within the clock's error
  std::optional<double> probability;  ///< the model's, calibrated
  std::string fault_kind;             ///< the model's; empty: no model, or it does not know
  double kind_probability = 0;
  std::vector<Suspect> suspects;  ///< best first
  std::vector<PeerWait> waits;    ///< for the first suspect's rank, longest first
  std::vector<EvidenceLine> logs;
  std::string explanation;
};

/// How often lines of each form (reconstruct::MineTemplates) stand in a run's steps.
class LogForms {
 public:
  LogForms() = default;
  explicit LogForms(const reconstruct::RunForest& run);
  /// Lines of the form of this one; 0 where it was not there.
  int64_t LinesLike(const std::string& text) const;

 private:
  std::map<std::string, int64_t> by_text_;
};

struct EvidenceOptions {
  std::size_t suspects = 5;
  std::size_t logs = 3;
  bool waits = true;         ///< false: the ranks' clocks are not related, so that no wait is known
  double wait_share = 0.25;  ///< a wait is told from this share of the first suspect's excess on
};

/// What the localiser and, where given, the model say of one step, with measured evidence. The
/// model's first operator guess comes first; its times are the localiser's where that names the
/// same (rank, operator), else the node's own duration without an expected time. `abnormal` is the
/// caller's decision.
StepDiagnosis GatherEvidence(const reconstruct::StepForest& step, const StringInterner& symbols,
                             const localize::StepSuspects& suspects, bool abnormal,
                             const dataset::StepPrediction* prediction,
                             const std::vector<std::string>& kinds, const LogForms& forms = {},
                             const EvidenceOptions& options = {});

}  // namespace teller::diagnose
