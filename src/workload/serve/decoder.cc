#include "src/workload/serve/decoder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "src/core/random.h"
#include "src/workload/serve/operators.h"

namespace teller::serve {
namespace {

using at::Tensor;

Tensor Zeros(at::IntArrayRef sizes) {
  Tensor tensor = at::detail::empty_cpu(sizes, at::kFloat);
  std::memset(tensor.mutable_data_ptr<float>(), 0, tensor.nbytes());
  return tensor;
}

/// A part of a weight matrix: rows [first_row, first_row + rows) and the same of columns.
struct Shard {
  int64_t first_row = 0, rows = 0, first_column = 0, columns = 0;
};

/// Fills `out` [rows, columns] with a shard of the whole matrix [.., whole_columns] named `name`:
/// normal numbers with deviation 1 / sqrt(inputs). The whole matrix is drawn, so that every
/// sharding sees the same numbers.
void FillShard(float* out, int64_t seed, const std::string& name, int64_t whole_rows,
               int64_t whole_columns, const Shard& shard) {
  Random random(static_cast<uint64_t>(seed), name);
  const double deviation = 1.0 / std::sqrt(static_cast<double>(whole_columns));
  for (int64_t r = 0; r < whole_rows; ++r) {
    for (int64_t c = 0; c < whole_columns; ++c) {
      const auto value = static_cast<float>(deviation * random.Normal());
      const int64_t row = r - shard.first_row, column = c - shard.first_column;
      if (row >= 0 && row < shard.rows && column >= 0 && column < shard.columns) {
        out[row * shard.columns + column] = value;
      }
    }
  }
}

struct Layer {
  Tensor attention_norm, qkv, output, feed_forward_norm, gate_up, down;
  Tensor key_cache, value_cache;
};

/// int32 values on the host and on the device, and the device's as tensors.
class StepBuffer {
 public:
  void Clear() { host_.clear(); }
  std::size_t size() const { return host_.size(); }
  std::vector<int32_t>& host() { return host_; }

  void CopyToDevice(CpuDevice& device, CpuDevice::Stream stream) {
    device_.resize(std::max(device_.size(), host_.size()));
    device.Copy(stream, "memcpy_htod", device_.data(), host_.data(),
                host_.size() * sizeof(int32_t));
  }
  Tensor View(std::size_t first, at::IntArrayRef sizes) {
    return at::from_blob(device_.data() + first, sizes, at::kInt);
  }

 private:
  std::vector<int32_t> host_;
  std::vector<int32_t> device_;
};

}  // namespace

struct Decoder::State {
  State(const ModelOptions& model, const Scheduler::Options& engine, CpuDevice& device,
        const DecoderGroups& groups);

  Tensor RowShard(const std::string& name, int64_t rows, int64_t columns) const;
  Tensor ColumnShard(const std::string& name, int64_t rows, int64_t columns) const;
  Tensor Stacked(const std::string& layer,
                 const std::vector<std::pair<std::string, int64_t>>& parts) const;
  Layer MakeLayer(int64_t index) const;
  Tensor MakeCosSin() const;
  void AppendItem(const PlanItem& item, int32_t first_row);
  void MapInputs(int64_t rows, int64_t sequences, std::size_t table_width);
  Tensor RunLayer(Layer& layer, const Tensor& input, Tensor& residual);
  void Reduce(Tensor& x) const;
  Tensor FirstInput() const;
  void RunHead(const Tensor& x);
  Tensor BestTokens() const;

  const ModelOptions& model;
  const Scheduler::Options& engine;
  CpuDevice& device;
  const DecoderGroups groups;
  const int64_t rank, ranks;      ///< in the tensor group
  const int64_t stage, stages;    ///< in the pipeline group
  const int64_t heads, kv_heads;  ///< of this rank
  const CpuDevice::Stream stream;
  std::shared_ptr<CpuDevice::Event> sampled;

  Tensor embedding, final_norm, head, cos_sin;
  std::vector<Layer> layers;

  // Of the current step. `inputs`: ids, positions, slots of all rows; then sequences; then the
  // sampled rows.
  std::vector<int32_t> ids, positions, slots, sequences, sampled_rows;
  StepBuffer inputs, block_tables;
  Tensor ids_view, positions_view, slots_view, sequences_view, sampled_rows_view, block_tables_view;
  Tensor logits;  ///< [ranks, rows, vocabulary / ranks]; undefined: no row is sampled
};

Decoder::State::State(const ModelOptions& model, const Scheduler::Options& engine,
                      CpuDevice& device, const DecoderGroups& groups)
    : model(model),
      engine(engine),
      device(device),
      groups(groups),
      rank(groups.tensor != nullptr ? groups.tensor->rank() : 0),
      ranks(groups.tensor != nullptr ? groups.tensor->size() : 1),
      stage(groups.pipeline != nullptr ? groups.pipeline->rank() : 0),
      stages(groups.pipeline != nullptr ? groups.pipeline->size() : 1),
      heads(model.heads / ranks),
      kv_heads(model.kv_heads / ranks),
      stream(device.CreateStream()),
      sampled(device.CreateEvent()) {
  const int64_t hidden = model.hidden, vocabulary = model.vocabulary;
  if (stage == 0) {
    embedding = at::detail::empty_cpu({vocabulary, hidden}, at::kFloat);
    FillShard(embedding.mutable_data_ptr<float>(), model.seed, "embedding", vocabulary, hidden,
              {.rows = vocabulary, .columns = hidden});
  }
  if (stage + 1 == stages) head = RowShard("head", vocabulary, hidden);
  final_norm = Zeros({hidden});
  std::fill_n(final_norm.mutable_data_ptr<float>(), hidden, 1.0f);
  cos_sin = MakeCosSin();
  const int64_t end = model.layers * (stage + 1) / stages;
  for (int64_t i = model.layers * stage / stages; i < end; ++i) layers.push_back(MakeLayer(i));
}

/// This rank's share of the rows (outputs) of a weight matrix.
Tensor Decoder::State::RowShard(const std::string& name, int64_t rows, int64_t columns) const {
  const int64_t own = rows / ranks;
  Tensor out = at::detail::empty_cpu({own, columns}, at::kFloat);
  FillShard(out.mutable_data_ptr<float>(), model.seed, name, rows, columns,
            {.first_row = rank * own, .rows = own, .columns = columns});
  return out;
}

/// This rank's share of the columns (inputs).
Tensor Decoder::State::ColumnShard(const std::string& name, int64_t rows, int64_t columns) const {
  const int64_t own = columns / ranks;
  Tensor out = at::detail::empty_cpu({rows, own}, at::kFloat);
  FillShard(out.mutable_data_ptr<float>(), model.seed, name, rows, columns,
            {.rows = rows, .first_column = rank * own, .columns = own});
  return out;
}

/// Row shards of several matrices over the hidden width, one below the other.
Tensor Decoder::State::Stacked(const std::string& layer,
                               const std::vector<std::pair<std::string, int64_t>>& parts) const {
  int64_t rows = 0;
  for (const auto& [name, part_rows] : parts) rows += part_rows / ranks;
  Tensor out = at::detail::empty_cpu({rows, int64_t{model.hidden}}, at::kFloat);
  float* at = out.mutable_data_ptr<float>();
  for (const auto& [name, part_rows] : parts) {
    const Tensor part = RowShard(layer + name, part_rows, model.hidden);
    std::memcpy(at, part.const_data_ptr<float>(), part.nbytes());
    at += part.numel();
  }
  return out;
}

Layer Decoder::State::MakeLayer(int64_t index) const {
  const int64_t width = model.head_width();
  const int64_t slot_count = int64_t{engine.blocks} * engine.block_tokens;
  const std::string name = "layer." + std::to_string(index) + ".";
  return {.attention_norm = final_norm,
          .qkv = Stacked(name, {{"query", model.heads * width},
                                {"key", model.kv_heads * width},
                                {"value", model.kv_heads * width}}),
          .output = ColumnShard(name + "output", model.hidden, model.heads * width),
          .feed_forward_norm = final_norm,
          .gate_up = Stacked(name, {{"gate", model.intermediate}, {"up", model.intermediate}}),
          .down = ColumnShard(name + "down", model.hidden, model.intermediate),
          .key_cache = Zeros({slot_count, kv_heads, width}),
          .value_cache = Zeros({slot_count, kv_heads, width})};
}

Tensor Decoder::State::MakeCosSin() const {
  const int64_t width = model.head_width(), half = width / 2;
  Tensor table = Zeros({model.max_length, width});
  float* out = table.mutable_data_ptr<float>();
  for (int64_t position = 0; position < model.max_length; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
      const double angle = static_cast<double>(position) * std::pow(10000.0, exponent);
      out[position * width + i] = static_cast<float>(std::cos(angle));
      out[position * width + half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

void Decoder::State::AppendItem(const PlanItem& item, int32_t first_row) {
  const auto rows = static_cast<int32_t>(item.tokens.size());
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t position = item.start + i;
    const auto block = static_cast<std::size_t>(position / engine.block_tokens);
    ids.push_back(item.tokens[static_cast<std::size_t>(i)]);
    positions.push_back(position);
    slots.push_back(item.blocks.at(block) * engine.block_tokens + position % engine.block_tokens);
  }
  sequences.insert(sequences.end(), {first_row, rows, item.start});
  if (item.samples) sampled_rows.push_back(first_row + rows - 1);
}

/// Packs the step's inputs into one buffer and names its parts.
void Decoder::State::MapInputs(int64_t rows, int64_t count, std::size_t table_width) {
  std::vector<std::size_t> first;
  inputs.Clear();
  for (const auto* part : {&ids, &positions, &slots, &sequences, &sampled_rows}) {
    first.push_back(inputs.size());
    inputs.host().insert(inputs.host().end(), part->begin(), part->end());
  }
  inputs.CopyToDevice(device, stream);
  block_tables.CopyToDevice(device, stream);
  ids_view = inputs.View(first[0], {rows});
  positions_view = inputs.View(first[1], {rows});
  slots_view = inputs.View(first[2], {rows});
  sequences_view = inputs.View(first[3], {count, 3});
  sampled_rows_view = inputs.View(first[4], {static_cast<int64_t>(sampled_rows.size())});
  block_tables_view = block_tables.View(0, {count, static_cast<int64_t>(table_width)});
}

void Decoder::State::Reduce(Tensor& x) const {
  if (groups.tensor != nullptr) operators::AllReduce(x);
}

/// Answers what the feed-forward part adds to the residual.
Tensor Decoder::State::RunLayer(Layer& layer, const Tensor& input, Tensor& residual) {
  Tensor qkv = operators::Linear(input, layer.qkv);
  operators::Rope(qkv, positions_view, cos_sin, heads, kv_heads);
  operators::ReshapeAndCache(qkv, slots_view, layer.key_cache, layer.value_cache);
  const Tensor attended =
      operators::PagedAttention(qkv, layer.key_cache, layer.value_cache, sequences_view,
                                block_tables_view, engine.block_tokens);
  Tensor projected = operators::Linear(attended, layer.output);
  Reduce(projected);
  const Tensor normed = operators::AddRmsNorm(projected, residual, layer.feed_forward_norm);
  const Tensor gated = operators::SiluMul(operators::Linear(normed, layer.gate_up));
  Tensor added = operators::Linear(gated, layer.down);
  Reduce(added);
  return added;
}

/// The residual that the first layer here starts from.
Tensor Decoder::State::FirstInput() const {
  if (stage == 0) return operators::Embedding(ids_view, embedding);
  Tensor residual = at::detail::empty_cpu({ids_view.size(0), int64_t{model.hidden}}, at::kFloat);
  operators::Receive(residual, stage - 1);
  return residual;
}

void Decoder::State::RunHead(const Tensor& x) {
  if (sampled_rows.empty()) return;
  const Tensor own = operators::Linear(operators::SelectRows(x, sampled_rows_view), head);
  if (groups.tensor != nullptr) {
    logits = operators::AllGather(own);
  } else {
    float* data = own.mutable_data_ptr<float>();
    logits = at::from_blob(
        data, {1, own.size(0), own.size(1)}, [own](void*) {}, at::kFloat);
  }
}

/// The sampled tokens, where this rank has or gets them: the last stage samples and tells rank 0.
Tensor Decoder::State::BestTokens() const {
  if (sampled_rows.empty()) return {};
  if (stage + 1 == stages) {
    const Tensor best = operators::Argmax(logits);
    if (stages > 1 && rank == 0) operators::Send(best, 0);
    return best;
  }
  if (stage > 0 || rank > 0) return {};
  Tensor best = at::detail::empty_cpu({static_cast<int64_t>(sampled_rows.size())}, at::kInt);
  operators::Receive(best, stages - 1);
  return best;
}

void UseOneThread() { at::set_num_threads(1); }

Decoder::Decoder(const ModelOptions& model, const Scheduler::Options& engine, CpuDevice& device,
                 const DecoderGroups& groups) {
  UseOneThread();
  const c10::InferenceMode guard;
  state_ = std::make_unique<State>(model, engine, device, groups);
  SetOperatorContext({.device = &device,
                      .stream = state_->stream,
                      .tensor_group = groups.tensor,
                      .pipeline_group = groups.pipeline});
}

Decoder::~Decoder() = default;

void Decoder::Prepare(const StepPlan& plan) {
  State& s = *state_;
  for (auto* values : {&s.ids, &s.positions, &s.slots, &s.sequences, &s.sampled_rows})
    values->clear();
  std::size_t table_width = 1;
  for (const PlanItem& item : plan.items) {
    s.AppendItem(item, static_cast<int32_t>(s.ids.size()));
    table_width = std::max(table_width, item.blocks.size());
  }
  s.block_tables.Clear();
  for (const PlanItem& item : plan.items) {
    s.block_tables.host().insert(s.block_tables.host().end(), item.blocks.begin(),
                                 item.blocks.end());
    s.block_tables.host().resize(s.block_tables.size() + table_width - item.blocks.size());
  }
  s.MapInputs(static_cast<int64_t>(s.ids.size()), static_cast<int64_t>(plan.items.size()),
              table_width);
}

void Decoder::Forward() {
  const c10::InferenceMode guard;
  State& s = *state_;
  s.logits = Tensor();
  Tensor residual = s.FirstInput();
  Tensor x = operators::RmsNorm(residual, s.layers[0].attention_norm);
  for (std::size_t i = 0; i + 1 < s.layers.size(); ++i) {
    const Tensor added = s.RunLayer(s.layers[i], x, residual);
    x = operators::AddRmsNorm(added, residual, s.layers[i + 1].attention_norm);
  }
  const Tensor added = s.RunLayer(s.layers.back(), x, residual);
  if (s.stage + 1 == s.stages) {
    s.RunHead(operators::AddRmsNorm(added, residual, s.final_norm));
  } else {
    operators::Add(added, residual);
    operators::Send(residual, s.stage + 1);
  }
}

std::vector<int32_t> Decoder::Sample() {
  const c10::InferenceMode guard;
  State& s = *state_;
  std::vector<int32_t> tokens(s.sampled_rows.size());
  const Tensor best = s.BestTokens();
  if (best.defined()) {
    s.device.Copy(s.stream, "memcpy_dtoh", tokens.data(), best.const_data_ptr<int32_t>(),
                  tokens.size() * sizeof(int32_t));
  }
  s.device.Record(s.stream, s.sampled);
  s.device.Synchronize(s.sampled);
  return tokens;
}

std::vector<std::vector<float>> Decoder::Logits() const {
  const Tensor& logits = state_->logits;
  std::vector<std::vector<float>> rows(state_->sampled_rows.size());
  if (!logits.defined()) return rows;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (int64_t part = 0; part < logits.size(0); ++part) {
      const float* from = logits.const_data_ptr<float>() +
                          (part * logits.size(1) + static_cast<int64_t>(r)) * logits.size(2);
      rows[r].insert(rows[r].end(), from, from + logits.size(2));
    }
  }
  return rows;
}

}  // namespace teller::serve
