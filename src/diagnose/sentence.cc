#include "src/diagnose/sentence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/core/clock.h"

namespace teller::diagnose {
namespace {

using localize::Measure;

std::string Rank(RankId rank) { return fmt::format("rank {}", static_cast<int32_t>(rank)); }

std::string Upper(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// 'On rank 1, linear'.
std::string Place(const Suspect& suspect) {
  if (suspect.rank == kNoRank) return suspect.op;
  return fmt::format("On {}, {}", Rank(suspect.rank), suspect.op);
}

std::string Usual(const Suspect& suspect) {
  if (suspect.late_start) return {};
  if (!suspect.expected_ns) return " (no healthy time of it is known)";
  std::string text = fmt::format(" where {} is usual", FormatDuration(*suspect.expected_ns));
  const double factor = static_cast<double>(suspect.observed_ns) /
                        static_cast<double>(std::max<int64_t>(1, *suspect.expected_ns));
  if (*suspect.expected_ns >= 1000 && factor >= 1.05)
    text += factor < 10 ? fmt::format(" ({:.2g} times as long)", factor)
                        : fmt::format(" ({:.0f} times as long)", factor);
  return text;
}

std::string WhatHappened(const Suspect& suspect) {
  const std::string observed = FormatDuration(suspect.observed_ns);
  if (suspect.late_start) {
    return fmt::format("{} entered {} last, {} after the other ranks", Upper(Rank(suspect.rank)),
                       suspect.op, observed);
  }
  switch (suspect.measure) {
    case Measure::kGapBefore:
      return fmt::format("{} started {} after what ran before it", Place(suspect), observed);
    case Measure::kHostSelf:
      return fmt::format("{} spent {} in itself", Place(suspect), observed);
    case Measure::kLaunchDelay:
      return fmt::format("{} began {} after it was launched and its stream was free",
                         Place(suspect), observed);
    case Measure::kWait:
      return fmt::format("{} waited {} for the last rank", Place(suspect), observed);
    case Measure::kTransfer:
      if (suspect.peer != kNoRank) {
        return fmt::format("Between {} and {}, {} took {} to transfer after all ranks had started",
                           Rank(suspect.rank), Rank(suspect.peer), suspect.op, observed);
      }
      return fmt::format("{} took {} to transfer after all ranks had started", Place(suspect),
                         observed);
    case Measure::kEntryDelay:
      return fmt::format("{} was joined {} after the device had come to it", Place(suspect),
                         observed);
    case Measure::kDuration:
    case Measure::kStep:
      break;
  }
  return fmt::format("{} took {}", Place(suspect), observed);
}

std::string Waits(const StepDiagnosis& diagnosis) {
  if (diagnosis.waits.empty()) return {};
  const PeerWait& wait = diagnosis.waits.front();
  std::string text = fmt::format(" {} waited {} for it in {}", Upper(Rank(wait.rank)),
                                 FormatDuration(wait.waited_ns), wait.op);
  if (diagnosis.waits.size() > 1)
    text += fmt::format(", {} more ranks too", diagnosis.waits.size() - 1);
  return text + ".";
}

std::string Log(const StepDiagnosis& diagnosis) {
  if (diagnosis.logs.empty()) return {};
  const EvidenceLine& line = diagnosis.logs.front();
  const std::string who = line.rank == kNoRank ? "The log" : "The log of " + Rank(line.rank);
  return fmt::format(" {} says in this step: '{}'.", who, line.text);
}

std::string Kind(const StepDiagnosis& diagnosis) {
  if (diagnosis.fault_kind.empty()) return {};
  if (diagnosis.fault_kind == "unknown") return " The model knows no fault of this kind.";
  return fmt::format(" The model calls it {} ({:.0f} %).", diagnosis.fault_kind,
                     100 * diagnosis.kind_probability);
}

}  // namespace

std::string Explain(const StepDiagnosis& diagnosis) {
  if (!diagnosis.abnormal) return kNothingFound;
  if (diagnosis.suspects.empty())
    return "The step is abnormal, but no operator stands out." + Kind(diagnosis);
  const Suspect& first = diagnosis.suspects.front();
  std::string text = WhatHappened(first) + Usual(first) + "." + Waits(diagnosis) + Log(diagnosis) +
                     Kind(diagnosis);
  if (diagnosis.undecided) text += " Who started last cannot be told within the clock's error.";
  return text;
}

}  // namespace teller::diagnose
