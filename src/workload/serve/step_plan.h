#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace teller::serve {

/// One request's part of a step: the tokens whose keys and values are computed now, and where they
/// are kept.
struct PlanItem {
  int32_t start = 0;     ///< position of tokens[0] in the request
  bool context = false;  ///< prompt (or recomputed) tokens, else one generated token
  bool samples = false;  ///< the next token is sampled after tokens.back()
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;  ///< of positions 0 .. start + tokens.size() - 1
};

/// What every rank does in one engine iteration. It is whole in itself: ranks other than 0 keep no
/// request state.
struct StepPlan {
  uint32_t step = 0;
  bool stop = false;  ///< the service ends; no items
  std::vector<PlanItem> items;

  /// 'execute_context_A(TOKENS)_generation_B(TOKENS)', as vLLM annotates its steps.
  std::string Annotation() const;
  std::vector<int32_t> Serialize() const;
  /// Throws DeviceError where `words` are no plan.
  static StepPlan Parse(std::span<const int32_t> words);
};

}  // namespace teller::serve
