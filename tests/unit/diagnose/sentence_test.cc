#include "src/diagnose/sentence.h"

#include <gtest/gtest.h>

namespace teller::diagnose {
namespace {

StepDiagnosis Abnormal(const Suspect& suspect) {
  StepDiagnosis diagnosis;
  diagnosis.abnormal = true;
  diagnosis.suspects = {suspect};
  return diagnosis;
}

Suspect Linear() {
  Suspect suspect{
      .rank = RankId{1}, .op = "linear", .layer = trace::Layer::kBackend, .node = NodeId{3}};
  suspect.observed_ns = 1'240'000;
  suspect.expected_ns = 310'000;
  return suspect;
}

TEST(ExplainTest, AHealthyStepSaysThatNothingWasFound) {
  StepDiagnosis diagnosis = Abnormal(Linear());
  diagnosis.abnormal = false;
  EXPECT_EQ(Explain(diagnosis), "Nothing abnormal found.");
}

TEST(ExplainTest, NamesPlaceTimesWaitsLogAndKind) {
  StepDiagnosis diagnosis = Abnormal(Linear());
  diagnosis.waits = {{RankId{0}, "all_reduce", 812'000}};
  diagnosis.logs = {{RankId{1}, 0, "WARNING slow iteration"}};
  diagnosis.fault_kind = "operator_slowdown";
  diagnosis.kind_probability = 0.82;
  EXPECT_EQ(Explain(diagnosis),
            "On rank 1, linear took 1.24 ms where 310 us is usual (4 times as long). Rank 0 waited "
            "812 us for it in "
            "all_reduce. The log of rank 1 says in this step: 'WARNING slow iteration'. The model "
            "calls it "
            "operator_slowdown (82 %).");
}

TEST(ExplainTest, LeavesOutWhatIsNotKnown) {
  Suspect suspect = Linear();
  suspect.expected_ns.reset();
  EXPECT_EQ(Explain(Abnormal(suspect)),
            "On rank 1, linear took 1.24 ms (no healthy time of it is known).");
  EXPECT_EQ(Explain(Abnormal(Linear())),
            "On rank 1, linear took 1.24 ms where 310 us is usual (4 times as long).");
}

TEST(ExplainTest, BlamesALinkBetweenTwoRanks) {
  Suspect suspect = Linear();
  suspect.op = "all_reduce";
  suspect.rank = RankId{0};
  suspect.peer = RankId{1};
  suspect.measure = localize::Measure::kTransfer;
  EXPECT_EQ(Explain(Abnormal(suspect)),
            "Between rank 0 and rank 1, all_reduce took 1.24 ms to transfer after all ranks had "
            "started where 310 us is "
            "usual (4 times as long).");
}

TEST(ExplainTest, SaysWhenNoOperatorStandsOut) {
  StepDiagnosis diagnosis;
  diagnosis.abnormal = true;
  diagnosis.fault_kind = "unknown";
  EXPECT_EQ(
      Explain(diagnosis),
      "The step is abnormal, but no operator stands out. The model knows no fault of this kind.");
}

}  // namespace
}  // namespace teller::diagnose
