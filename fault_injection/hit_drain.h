#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fault_injection/truth.h"
#include "src/abi/control.h"

namespace teller::fault_injection {

/// What the hits of one plan came to.
struct HitSums {
  int64_t count = 0;
  int64_t delay_ns = 0;
};

/// Follows every hit ring ('*.hits') of a run's folder and writes hits as actions. Hits of a
/// placebo are counted only: its effect is zero by plan. One thread, from construction to Finish.
class HitDrain {
 public:
  HitDrain(std::filesystem::path run_dir, TruthWriter& truth);
  ~HitDrain();
  HitDrain(const HitDrain&) = delete;
  HitDrain& operator=(const HitDrain&) = delete;

  /// Call before the plan's perturbation is switched on. Hits of processes without a rank are said
  /// to be of the plan's.
  void Expect(const PlannedFault& plan);
  /// Takes what is there and stops. Hits that a killed process left half-written are counted as
  /// lost.
  void Finish();
  HitSums Sums(uint32_t plan_id) const;
  int64_t lost() const;

 private:
  struct Ring;
  struct Expected {
    bool placebo;
    RankId rank;
  };
  void Follow(std::stop_token stop);
  void FindRings();
  bool DrainOnce();
  void Take(const Ring& ring, const TellerHit& hit);
  void CountLost(Ring& ring, bool final);

  const std::filesystem::path run_dir_;
  TruthWriter& truth_;
  std::map<std::string, std::unique_ptr<Ring>> rings_;  // by file; the thread's own
  mutable std::mutex mutex_;                            // guards what follows
  std::unordered_map<uint32_t, Expected> expected_;     // by plan id
  std::unordered_map<uint32_t, HitSums> sums_;
  int64_t lost_ = 0;
  int64_t strangers_ = 0;  // somebody else's entries of the control block
  std::jthread thread_;
};

}  // namespace teller::fault_injection
