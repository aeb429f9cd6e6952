#pragma once

#include <cstdint>

#include "src/agent/state.h"

namespace teller::agent {

/// One call that a perturbation may be waiting for. Times lie inside the call's record: hooks stamp
/// the begin before DelayAtStart and the end after DelayAtEnd.
struct PerturbedCall {
  uint32_t target;       ///< TellerTarget
  const char* name;      ///< zero-ended
  uint64_t correlation;  ///< 0: none
};

/// Makes the delay that stands at the call's start, if one matches. Call where DelayAtStartBit is
/// set.
void DelayAtStart(const PerturbedCall& call) noexcept;

/// Makes the delay in proportion to the call's own time, which began at stamp `begin`. Call where
/// DelayAtEndBit is set.
void DelayAtEnd(const PerturbedCall& call, uint64_t begin) noexcept;

/// Reads the control block anew: level, sources and the perturbations that concern this process.
/// One caller at a time.
void ApplyControl(const TellerControl& control) noexcept;

/// Switches everything off: nobody is there any more to drain or to clean up.
void ApplyNothing() noexcept;

/// Waits `delay_ns` from now: spins the last 20 ms, sleeps before that.
void Wait(int64_t delay_ns) noexcept;

/// True where `pattern` is `name`, or a prefix of it followed by '*'. `name` may carry a backend
/// ('gloo:all_reduce') that the pattern leaves out.
bool MatchesPattern(const Plan& plan, const char* name) noexcept;

}  // namespace teller::agent
