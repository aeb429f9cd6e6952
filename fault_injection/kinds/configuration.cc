// Faults of the engine's configuration: the engine is started with it and keeps it for the run, so
// there is nothing to switch. What is configured stands in the plan's magnitudes; what it does
// shows against restarts that are healthy otherwise (docs/labels.md).
#include <memory>

#include "fault_injection/kinds/kinds.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

class Configured : public Fault {
 public:
  explicit Configured(PlannedFault plan) : plan_(std::move(plan)) {}
  void Apply() override {}
  void Undo() noexcept override {}
  std::vector<Measure> Measures() const override {
    std::vector<Measure> measures;
    for (const auto& [name, value] : plan_.magnitude)
      measures.push_back({.name = "configured_" + name, .unit = "as configured", .value = value});
    return measures;
  }
  bool Acted() const override { return !plan_.placebo; }

 private:
  const PlannedFault plan_;
};

FaultKind ConfigurationKind(std::string_view name, std::string_view family) {
  return {.description = {.name = name,
                          .family = family,
                          .view = "vertical",
                          .where = "stretch",
                          .by_run = true},
          // Never dealt from a schedule, so never sized by one.
          .magnitude = [](double, const ScheduledKind&, const FaultTarget&) -> Magnitudes {
            TELLER_CHECK(false);
            return {};
          },
          .dilation = [](const Magnitudes&, const FaultTarget&, double) { return 1.0; },
          .make = [](const PlannedFault& plan,
                     FaultContext) { return std::make_unique<Configured>(plan); }};
}

}  // namespace

std::vector<FaultKind> ConfigurationKinds() {
  return {ConfigurationKind("kv_cache_starvation", "memory"),
          ConfigurationKind("batch_cap", "scheduling"),
          ConfigurationKind("chunk_size", "scheduling")};
}

}  // namespace teller::fault_injection
