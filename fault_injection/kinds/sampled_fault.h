#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

/// A fault whose record is a counter of the kernel, read every two milliseconds: each growth is an
/// action that ends at the reading and is as long as the growth, never reaching back behind the
/// action before. That period is the record's uncertainty. A placebo is sampled too and records
/// nothing.
class SampledFault : public Fault {
 public:
  SampledFault(PlannedFault plan, FaultContext context);

 protected:
  /// Time lost so far by the target, in ns; called from the sampling thread.
  virtual int64_t ReadLostNs() = 0;

  /// Starts and ends sampling; the derived class calls them inside Apply and Undo.
  void StartSampling(std::string what);
  void EndSampling() noexcept;

  const PlannedFault& plan() const { return plan_; }
  const FaultContext& context() const { return context_; }
  const cluster::RankProcess& target() const { return target_; }
  bool ending() const { return ending_.load(std::memory_order_relaxed); }
  int64_t recorded_ns() const { return recorded_ns_; }

 private:
  void Sample();

  const PlannedFault plan_;
  FaultContext context_;
  const cluster::RankProcess target_;
  std::string what_;
  std::atomic<bool> ending_ = false;
  int64_t recorded_ns_ = 0;
  std::thread sampler_;
};

}  // namespace teller::fault_injection
