// A straggler: one rank's process gets less processor time than it used when healthy, by a cgroup
// quota. Levels: recorded (throttled) time per step of 2 % to 200 % of a step of `nominal_step_ms`.
// The quota is a share of what the rank used in the calibration window: a step of length S that is
// throttled for x is left S / (S + x).
#include <algorithm>
#include <cmath>
#include <memory>

#include "fault_injection/kinds/kinds.h"
#include "fault_injection/kinds/sampled_fault.h"
#include "src/cluster/cpu_cgroup.h"

namespace teller::fault_injection {
namespace {

constexpr char kShare[] = "cpu_share";
constexpr char kPeriod[] = "period_ms";
constexpr char kStep[] = "nominal_step_ms";
constexpr double kLeastQuotaUs = 1000;  // the kernel takes no less

std::string CgroupName(const PlannedFault& plan) {
  return "r" + std::to_string(Index(plan.target.rank));
}

class CpuQuota : public SampledFault {
 public:
  using SampledFault::SampledFault;
  ~CpuQuota() override { Undo(); }

  void Apply() override {
    cgroup_ = std::make_unique<cluster::CpuCgroup>(context().run_id, CgroupName(plan()),
                                                   context().journal);
    cgroup_->Add(target().pid);
    if (!plan().placebo) SetQuota();
    StartSampling("throttled");
  }

  void Undo() noexcept override {
    EndSampling();
    if (cgroup_ != nullptr) throttled_ns_ = cgroup_->ThrottledNs();
    cgroup_.reset();
  }

  std::vector<Measure> Measures() const override {
    return {{.name = "quota_share", .unit = "processors", .value = quota_share_},
            {.name = "throttled", .unit = "ns", .value = static_cast<double>(throttled_ns_)}};
  }

 private:
  int64_t ReadLostNs() override { return cgroup_->ThrottledNs(); }

  void SetQuota() {
    quota_share_ = plan().magnitude.at(kShare) * context().healthy_cpu;
    const double period_us =
        std::max(plan().magnitude.at(kPeriod) * 1000, std::ceil(kLeastQuotaUs / quota_share_));
    cgroup_->SetQuota(std::llround(std::max(kLeastQuotaUs, quota_share_ * period_us)),
                      std::llround(std::min(period_us, 1e6)));
  }

  std::unique_ptr<cluster::CpuCgroup> cgroup_;
  double quota_share_ = 0;
  int64_t throttled_ns_ = 0;
};

Magnitudes MagnitudeOf(double step_us, const ScheduledKind& settings, const FaultTarget&) {
  const double healthy_us = settings.parameters.at(kStep) * 1000;
  return {{kShare, healthy_us / (healthy_us + step_us)},
          {kPeriod, settings.parameters.at(kPeriod)}};
}

}  // namespace

FaultKind CpuQuotaKind() {
  return {.description = {.name = "cpu_quota",
                          .family = "host",
                          .view = "horizontal",
                          .where = "interval",
                          .resource = "cgroup",
                          .parameters = {{kPeriod, 10, 1, 1000}, {kStep, 6, 0.01, 60000}}},
          .magnitude = MagnitudeOf,
          .dilation = [](const Magnitudes& magnitude, const FaultTarget&,
                         double) { return 1.0 / magnitude.at(kShare); },
          .make = [](const PlannedFault& plan,
                     FaultContext context) { return std::make_unique<CpuQuota>(plan, context); },
          .announce =
              [](const PlannedFault& plan, const FaultContext& context) {
                cluster::CpuCgroup::Announce(context.run_id, CgroupName(plan), context.journal);
              },
          .why_unavailable = cluster::CpuCgroup::WhyUnavailable};
}

}  // namespace teller::fault_injection
