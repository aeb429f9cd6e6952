#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/reconstruct/step_forest.h"

namespace teller::reconstruct {

/// Which engine ranges are steps, and what their names say. Group numbers refer to the expression's
/// parentheses; 0: the name does not say.
struct StepRule {
  std::string expression;    ///< ECMAScript, matched against the whole name (names over 512 bytes
                             ///< never match)
  int context_requests = 0;  ///< requests whose prompt is computed
  int context_tokens = 0;    ///< 'N', or 'sqN...' as newer vLLM writes it
  int generation_requests = 0;  ///< requests that decode
  int batch = 0;                ///< all requests
  int tokens = 0;               ///< all tokens of the step
  int mode = 0;                 ///< EXTEND or PREFILL, DECODE, MIXED
};

/// What a step's name says.
struct StepName {
  Phase phase = Phase::kUnknown;
  int32_t batch_size = 0;       ///< 0: not said
  int32_t context_tokens = -1;  ///< -1: not said
};

/// Reference service and vLLM, SGLang, vLLM on CPU, the PyTorch profiler's steps, in this order:
/// the first rule that matches any range of a trace is the rule of that trace.
std::vector<StepRule> DefaultStepRules();

/// One rule, ready to match.
class StepMatcher {
 public:
  /// Throws ConfigError where the expression is not one.
  explicit StepMatcher(StepRule rule);
  ~StepMatcher();
  StepMatcher(StepMatcher&&) noexcept;
  StepMatcher& operator=(StepMatcher&&) noexcept;

  /// Nothing where the name is no step.
  std::optional<StepName> Match(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::reconstruct
