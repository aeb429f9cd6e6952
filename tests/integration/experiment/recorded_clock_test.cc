// Clocks and log lines of live runs of the reference service: ranks in time namespaces with known
// offsets, also under a one-way delay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "src/core/error.h"
#include "src/dataset/build_steps.h"
#include "src/diagnose/diagnose_run.h"
#include "src/experiment/campaign.h"
#include "src/experiment/experiment_config.h"
#include "src/localize/baseline.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/collectives.h"
#include "src/trace/trace_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;
using reconstruct::Alignment;
using reconstruct::CollectiveRecord;

constexpr int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

/// A recorded run, read for its clocks.
class RecordedRun {
 public:
  /// Records for `seconds` with the second node's clock `offset_ns` ahead.
  RecordedRun(int64_t offset_ns, double seconds,
              std::vector<fault_injection::PlannedFault> faults) {
    const ExperimentConfig config =
        LoadExperiment(fs::path(TELLER_SOURCE_DIR) / "experiments" / "smoke.yaml");
    RunPlan plan = PlanRuns(*config.campaign).front();
    plan.clock_offset_ns = offset_ns;
    plan.faults.duration_ns = static_cast<int64_t>(seconds * 1e9);
    plan.faults.faults = std::move(faults);
    RecordRun(*config.campaign, plan, "clocktest" + std::to_string(::getpid()), folder_.path(),
              [](double, const std::string&) {});
    reader_.emplace(folder_ / "trace.h5");
    for (int i = 0; i < static_cast<int>(reader_->processes().size()); ++i) {
      const auto found = reconstruct::CollectivesOf(i, reader_->ReadEvents(i));
      records_.insert(records_.end(), found.begin(), found.end());
    }
  }

  fs::path folder() const { return folder_.path(); }
  int ProcessOf(RankId rank) const {
    const auto& all = reader_->processes();
    return static_cast<int>(std::ranges::find(all, rank, &trace::ProcessInfo::rank) - all.begin());
  }
  Alignment Align(const reconstruct::AlignOptions& options = {}) const {
    return reconstruct::AlignClocks(reader_->processes(), reader_->ReadClock(),
                                    reader_->ReadProbes(), records_, reader_->strings(), options);
  }
  /// Median distance of the ends of collectives on ranks 0 and 1 once `alignment` is applied.
  int64_t EndsApartNs(const Alignment& alignment) const {
    std::vector<int64_t> apart;
    for (const auto& collective : reconstruct::MatchCollectives(records_)) {
      if (collective.records.size() != 2) continue;
      const CollectiveRecord &a = records_[collective.records[0]],
                             &b = records_[collective.records[1]];
      const auto on_base = [&](const CollectiveRecord& record) {
        return alignment.processes[static_cast<std::size_t>(record.process)].ToBase(record.end_ns);
      };
      apart.push_back(std::llabs(on_base(a) - on_base(b)));
    }
    if (apart.empty()) return INT64_MAX;
    std::ranges::nth_element(apart, apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2));
    return apart[apart.size() / 2];
  }
  int64_t OffsetOfRank1(const Alignment& alignment) const {
    return alignment.processes[static_cast<std::size_t>(ProcessOf(RankId{1}))].offset_ns;
  }

 private:
  const testing_support::TemporaryFolder folder_;
  std::optional<trace::TraceReader> reader_;
  std::vector<CollectiveRecord> records_;
};

/// Why runs with clocks of their own cannot be recorded here; empty where they can.
std::string WhyNot() {
  try {
    CheckCampaignAvailable(
        *LoadExperiment(fs::path(TELLER_SOURCE_DIR) / "experiments" / "smoke.yaml").campaign);
  } catch (const UnavailableError& error) {
    return error.what();
  }
  if (::geteuid() != 0) return "time namespaces want root";
  if (!fs::exists("/proc/self/ns/time")) return "this kernel has no time namespaces";
  return {};
}

TEST(RecordedClockTest, AKnownOffsetOfATimeNamespaceIsFound) {
  if (const std::string why = WhyNot(); !why.empty()) GTEST_SKIP() << why;
  constexpr int64_t kOffset = 17 * kSecond + 359'419'003;
  const RecordedRun run(kOffset, 3, {});
  // Raw: the ends of one collective differ by the offset.
  Alignment raw;
  raw.processes.resize(16);
  EXPECT_NEAR(static_cast<double>(run.EndsApartNs(raw)), static_cast<double>(kOffset), 5.0 * kMs);
  const Alignment aligned = run.Align();
  EXPECT_TRUE(aligned.aligned);
  EXPECT_LT(std::llabs(run.OffsetOfRank1(aligned) + kOffset), 50 * kUs);
  EXPECT_LT(run.EndsApartNs(aligned), 5 * kMs);  // Gloo's ends, on a busy machine too
  // As if the ranks were on two machines: within the bound that it states.
  const Alignment apart = run.Align({.shared_ticks = false});
  EXPECT_TRUE(apart.aligned);
  const auto& map = apart.processes[static_cast<std::size_t>(run.ProcessOf(RankId{1}))];
  EXPECT_EQ(map.method, reconstruct::ClockMethod::kCollectives);
  EXPECT_LE(std::llabs(map.offset_ns + kOffset), map.error_ns);
  RecordProperty("collectives_alone_error_ns", std::to_string(std::llabs(map.offset_ns + kOffset)));
}

TEST(RecordedClockTest, AOneWayDelayInHalfOfARunMovesNoClockAndIsFound) {
  if (const std::string why = WhyNot(); !why.empty()) GTEST_SKIP() << why;
  if (!fs::exists("/dev/net/tun")) GTEST_SKIP() << "no /dev/net/tun here";
  constexpr int64_t kOffset = 5 * kSecond;
  const fault_injection::PlannedFault delay{.plan_id = 0,
                                            .kind = "link_latency",
                                            .level = 3,
                                            .magnitude = {{"delay_ns", 2.0 * kMs}},
                                            .target = {.rank = RankId{1}},
                                            .begin_ns = 3 * kSecond,
                                            .length_ns = 3 * kSecond};
  const RecordedRun run(kOffset, 6.2, {delay});
  const Alignment aligned = run.Align();
  EXPECT_LT(std::llabs(run.OffsetOfRank1(aligned) + kOffset), 50 * kUs);
  // The steps of the second half are found. Few of them are blamed on the link itself: what ends
  // late on one rank makes it start the next collective late.
  const dataset::StepsFile steps = dataset::BuildSteps(run.folder());
  std::vector<uint8_t> healthy;
  for (const auto& label : steps.labels)
    healthy.push_back(label.status == dataset::LabelStatus::kNegative ? 1 : 0);
  const localize::TrainingRun training{&steps.run, healthy,
                                       std::vector<uint8_t>(healthy.size(), 0)};
  const localize::Baseline baseline = localize::FitBaseline(std::span(&training, 1));
  const auto diagnosis =
      diagnose::DiagnoseRun(steps, diagnose::LocalizeAgainst(steps, baseline, 0.1), nullptr);
  EXPECT_EQ(diagnosis.verdict, diagnose::Verdict::kAbnormal);
  int faulty = 0, found = 0, link = 0;
  for (std::size_t s = 0; s < steps.labels.size(); ++s) {
    if (steps.labels[s].status != dataset::LabelStatus::kPositive) continue;
    ++faulty;
    const auto& step = diagnosis.steps[s];
    found += step.abnormal;
    link += step.abnormal && !step.suspects.empty() &&
            step.suspects[0].measure == localize::Measure::kTransfer;
  }
  RecordProperty("faulty", faulty);
  RecordProperty("found", found);
  RecordProperty("link", link);
  ASSERT_GT(faulty, 20);
  EXPECT_GT(found, faulty / 2);
}

}  // namespace
}  // namespace teller::experiment
