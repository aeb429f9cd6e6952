#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/features.h"

namespace teller::model {

/// Features of some steps as padded, row-major arrays: what the network takes. B steps, L tokens, G
/// log tokens.
struct Batch {
  int64_t steps = 0;       ///< B
  int64_t length = 0;      ///< L, the longest step's tokens
  int64_t log_length = 0;  ///< G
  int64_t ranks = 0;       ///< R, the most ranks of a step's run
  std::vector<int64_t> ids, parents, layers, token_ranks, depths, positions;  ///< [B, L], padding 0
  std::vector<float> values;              ///< [B, L, ValueWidth]
  std::vector<float> token_mask;          ///< [B, L], 1 where a token is
  std::vector<float> rank_mask;           ///< [B, R], 1 where a rank is
  std::vector<int64_t> logs, log_ranks;   ///< [B, G]
  std::vector<float> log_mask;            ///< [B, G]
  std::vector<float> numbers, localizer;  ///< [B, columns]

  std::vector<int64_t> node_token;   ///< by node: step * L + token
  std::vector<int64_t> node_symbol;  ///< by node
  std::vector<float> node_values;    ///< [nodes, kNodeValues]

  // Targets; empty for a batch that only predicts.
  std::vector<float> abnormal;                  ///< [B]
  std::vector<float> kind;                      ///< [B, kinds], one-hot; healthy steps all zero
  std::vector<float> kind_weight;               ///< [B]
  std::vector<int64_t> rank_step, rank_target;  ///< steps with a culprit rank, and its position
  std::vector<int64_t> none_step;               ///< steps whose fault has no operator
  std::vector<int64_t> hit_node, hit_step;  ///< indices in node_*; the step of each, dense from 0
  int64_t hit_steps = 0;
};

/// What the network says; logits are not calibrated.
struct Outputs {
  std::vector<float> abnormal;  ///< [B] logit
  std::vector<float> kind;      ///< [B, kinds] logits, one against the rest
  std::vector<float> rank;      ///< [B, R] log probabilities; empty without tokens
  std::vector<float> none;      ///< [B] log probability of 'no operator'; empty without tokens
  std::vector<float> node;      ///< by node: log probability of token and node in it
};

/// Pads and concatenates. All nodes are kept, so that every one can be pointed at.
Batch BuildBatch(std::span<const StepFeatures* const> steps, const ModelConfig& config);

/// Weight of a healthy step in the kind loss: it teaches what no kind looks like, so that 'unknown'
/// has a meaning.
inline constexpr float kHealthyKindWeight = 0.25f;

/// As above with targets; only the nodes of steps that teach the pointer are kept.
Batch BuildTrainingBatch(std::span<const StepFeatures* const> steps,
                         std::span<const StepTarget* const> targets, int64_t kinds,
                         const ModelConfig& config);

}  // namespace teller::model
