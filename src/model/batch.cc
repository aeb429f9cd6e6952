#include "src/model/batch.h"

#include <algorithm>

#include "src/core/error.h"

namespace teller::model {
namespace {

template <typename From, typename To>
void CopyRow(const std::vector<From>& from, std::vector<To>& to, int64_t row, int64_t width) {
  std::copy(from.begin(), from.end(), to.begin() + row * width);
}

void Resize(Batch& batch, std::span<const StepFeatures* const> steps, int64_t value_width) {
  batch.steps = static_cast<int64_t>(steps.size());
  for (const StepFeatures* step : steps) {
    batch.length = std::max<int64_t>(batch.length, static_cast<int64_t>(step->id.size()));
    batch.log_length = std::max<int64_t>(batch.log_length, static_cast<int64_t>(step->logs.size()));
    batch.ranks = std::max<int64_t>(batch.ranks, step->ranks);
  }
  const auto cells = static_cast<std::size_t>(batch.steps * batch.length);
  for (auto* column : {&batch.ids, &batch.parents, &batch.layers, &batch.token_ranks, &batch.depths,
                       &batch.positions}) {
    column->assign(cells, 0);
  }
  batch.values.assign(cells * static_cast<std::size_t>(value_width), 0);
  batch.token_mask.assign(cells, 0);
  batch.rank_mask.assign(static_cast<std::size_t>(batch.steps * batch.ranks), 0);
  batch.logs.assign(static_cast<std::size_t>(batch.steps * batch.log_length), 0);
  batch.log_ranks.assign(batch.logs.size(), 0);
  batch.log_mask.assign(batch.logs.size(), 0);
}

void FillStep(Batch& batch, const StepFeatures& step, int64_t row, int64_t value_width) {
  CopyRow(step.id, batch.ids, row, batch.length);
  CopyRow(step.parent, batch.parents, row, batch.length);
  CopyRow(step.layer, batch.layers, row, batch.length);
  CopyRow(step.rank, batch.token_ranks, row, batch.length);
  CopyRow(step.depth, batch.depths, row, batch.length);
  CopyRow(step.position, batch.positions, row, batch.length);
  CopyRow(step.values, batch.values, row, batch.length * value_width);
  CopyRow(step.logs, batch.logs, row, batch.log_length);
  CopyRow(step.log_ranks, batch.log_ranks, row, batch.log_length);
  std::fill_n(batch.token_mask.begin() + row * batch.length, step.id.size(), 1.0f);
  std::fill_n(batch.log_mask.begin() + row * batch.log_length, step.logs.size(), 1.0f);
  std::fill_n(batch.rank_mask.begin() + row * batch.ranks, step.ranks, 1.0f);
  batch.numbers.insert(batch.numbers.end(), step.numbers.begin(), step.numbers.end());
  batch.localizer.insert(batch.localizer.end(), step.localizer.begin(), step.localizer.end());
}

void AppendNodes(Batch& batch, const StepFeatures& step, int64_t row) {
  for (const NodeFeature& node : step.nodes) {
    batch.node_token.push_back(row * batch.length + node.token);
    batch.node_symbol.push_back(node.symbol);
    batch.node_values.insert(batch.node_values.end(), node.values.begin(), node.values.end());
  }
}

Batch BuildWithoutNodes(std::span<const StepFeatures* const> steps, const ModelConfig& config) {
  const int64_t width = ValueWidth(config);
  Batch batch;
  Resize(batch, steps, width);
  for (std::size_t row = 0; row < steps.size(); ++row)
    FillStep(batch, *steps[row], static_cast<int64_t>(row), width);
  return batch;
}

void AddPointerTarget(Batch& batch, const StepFeatures& step, const StepTarget& target,
                      int64_t row) {
  if (target.pointer == PointerTarget::kNone) batch.none_step.push_back(row);
  if (target.pointer != PointerTarget::kNodes) return;
  const auto first = static_cast<int64_t>(batch.node_token.size());
  AppendNodes(batch, step, row);
  for (const uint32_t node : target.nodes) {
    batch.hit_node.push_back(first + node);
    batch.hit_step.push_back(batch.hit_steps);
  }
  ++batch.hit_steps;
}

void AddTarget(Batch& batch, const StepTarget& target, int64_t row, int64_t kinds) {
  batch.abnormal.push_back(target.abnormal ? 1.0f : 0.0f);
  batch.kind.resize(batch.kind.size() + static_cast<std::size_t>(kinds), 0.0f);
  if (target.kind >= 0) batch.kind[static_cast<std::size_t>(row * kinds + target.kind)] = 1;
  batch.kind_weight.push_back(target.abnormal ? 1.0f : kHealthyKindWeight);
  if (target.rank >= 0) {
    batch.rank_step.push_back(row);
    batch.rank_target.push_back(target.rank);
  }
}

}  // namespace

Batch BuildBatch(std::span<const StepFeatures* const> steps, const ModelConfig& config) {
  Batch batch = BuildWithoutNodes(steps, config);
  for (std::size_t row = 0; row < steps.size(); ++row)
    AppendNodes(batch, *steps[row], static_cast<int64_t>(row));
  return batch;
}

Batch BuildTrainingBatch(std::span<const StepFeatures* const> steps,
                         std::span<const StepTarget* const> targets, int64_t kinds,
                         const ModelConfig& config) {
  TELLER_CHECK(steps.size() == targets.size());
  Batch batch = BuildWithoutNodes(steps, config);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    AddTarget(batch, *targets[i], row, kinds);
    if (config.modalities.tokens) AddPointerTarget(batch, *steps[i], *targets[i], row);
  }
  return batch;
}

}  // namespace teller::model
