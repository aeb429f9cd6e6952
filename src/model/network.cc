#include "src/model/network.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/core/error.h"

namespace teller::model {
namespace {

constexpr int64_t kNodeWidth = 32;
constexpr double kEmbeddingDeviation =
    0.02 * 4;                  // small beside the value projection, large enough to be told apart
constexpr double kFar = -1e9;  // stands for minus infinity in masked scores

/// Views of a batch's arrays, which outlive the pass; -1 in `shape` as in Tensor::view.
at::Tensor Floats(const std::vector<float>& values, at::IntArrayRef shape) {
  const auto count = static_cast<int64_t>(values.size());
  return at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat).view(shape);
}
at::Tensor Integers(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  const auto count = static_cast<int64_t>(values.size());
  return at::from_blob(const_cast<int64_t*>(values.data()), {count}, at::kLong).view(shape);
}
std::vector<float> ToVector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const float* data = flat.const_data_ptr<float>();
  return {data, data + flat.numel()};
}

/// log sum exp of `scores` by segment, [segments]; empty segments are very low.
at::Tensor SegmentLogSumExp(const at::Tensor& scores, const at::Tensor& segment, int64_t segments) {
  const at::Tensor highest =
      at::full({segments}, kFar).scatter_reduce(0, segment, scores.detach(), "amax");
  const at::Tensor weight = at::exp(scores - highest.index_select(0, segment));
  const at::Tensor sum = at::zeros({segments}).index_add(0, segment, weight);
  return at::log(sum.clamp_min(1e-30)) + highest;
}

struct Hidden {
  at::Tensor summary;  // [B, d]
  at::Tensor tokens;   // [B, L, d]; undefined without tokens
  at::Tensor mask;     // [B, L]
};

struct Heads {
  at::Tensor abnormal, kind;     // [B], [B, kinds] logits
  at::Tensor token, none, node;  // log probabilities [B, L], [B], [nodes]
  at::Tensor rank;               // log probabilities [B, R]
};

/// One pass over one batch: names of parameters follow the places they are used in.
class Pass {
 public:
  Pass(const Parameters& parameters, const ModelConfig& config, const InputShape& shape,
       const Batch& batch, bool training)
      : parameters_(parameters),
        config_(config),
        shape_(shape),
        batch_(batch),
        training_(training) {}

  Heads Run() const {
    const Hidden hidden = Encode();
    Heads heads;
    if (has_tokens()) Point(hidden, heads);
    const at::Tensor pooled = Pool(hidden, heads.token);
    heads.abnormal = Perceptron("abnormal", pooled).squeeze(-1);
    heads.kind = Perceptron("kind", pooled);
    return heads;
  }

 private:
  bool has_tokens() const { return config_.modalities.tokens; }

  const at::Tensor& P(const std::string& name) const { return parameters_.Get(name); }
  at::Tensor Linear(const std::string& name, const at::Tensor& input) const {
    return at::linear(input, P(name + ".weight"), P(name + ".bias"));
  }
  at::Tensor Norm(const std::string& name, const at::Tensor& input) const {
    return at::layer_norm(input, {config_.d_model}, P(name + ".weight"), P(name + ".bias"));
  }
  at::Tensor Perceptron(const std::string& name, const at::Tensor& input) const {
    return Linear(name + ".out", at::gelu(Linear(name + ".in", input)));
  }
  at::Tensor Drop(const at::Tensor& input) const {
    return training_ && config_.dropout > 0 ? at::dropout(input, config_.dropout, true) : input;
  }
  at::Tensor Look(const std::string& name, const std::vector<int64_t>& ids, int64_t columns) const {
    return at::embedding(P(name), Integers(ids, {batch_.steps, columns}));
  }

  at::Tensor EmbedSummary() const {
    at::Tensor summary = P("summary").unsqueeze(0).expand({batch_.steps, config_.d_model});
    if (config_.modalities.numbers && !shape_.number_names.empty()) {
      summary = summary + Linear("numbers", Floats(batch_.numbers, {batch_.steps, -1}));
    }
    if (config_.modalities.localizer && !shape_.localizer_names.empty()) {
      summary = summary + Linear("localizer", Floats(batch_.localizer, {batch_.steps, -1}));
    }
    return summary.unsqueeze(1);
  }

  at::Tensor EmbedTokens() const {
    const int64_t columns = batch_.length;
    at::Tensor sum = Look("token.id", batch_.ids, columns);
    sum = sum + at::embedding(parameters_.Fixed("position"),
                              Integers(batch_.positions, {batch_.steps, columns}));
    if (config_.attributes.parent) sum = sum + Look("token.parent", batch_.parents, columns);
    if (config_.attributes.layer) sum = sum + Look("token.layer", batch_.layers, columns);
    if (config_.attributes.rank) sum = sum + Look("token.rank", batch_.token_ranks, columns);
    if (config_.attributes.depth) sum = sum + Look("token.depth", batch_.depths, columns);
    if (const int64_t width = ValueWidth(config_); width > 0) {
      sum = sum + Perceptron("token.values", Floats(batch_.values, {batch_.steps, columns, width}));
    }
    return sum;
  }

  at::Tensor EmbedLogs() const {
    const at::Tensor place = parameters_.Fixed("position").slice(0, 0, batch_.log_length);
    const at::Tensor sum = Look("log.id", batch_.logs, batch_.log_length) + place + P("log.kind");
    return config_.attributes.rank ? sum + Look("log.rank", batch_.log_ranks, batch_.log_length)
                                   : sum;
  }

  Hidden Encode() const {
    std::vector<at::Tensor> parts = {EmbedSummary()};
    std::vector<at::Tensor> masks = {at::ones({batch_.steps, 1})};
    if (has_tokens()) {
      parts.push_back(EmbedTokens());
      masks.push_back(Floats(batch_.token_mask, {batch_.steps, batch_.length}));
    }
    if (config_.modalities.logs && shape_.log_vocabulary > 0 && batch_.log_length > 0) {
      parts.push_back(EmbedLogs());
      masks.push_back(Floats(batch_.log_mask, {batch_.steps, batch_.log_length}));
    }
    at::Tensor x = Drop(at::cat(parts, 1));
    const at::Tensor bias = ((at::cat(masks, 1) - 1) * -kFar).unsqueeze(1).unsqueeze(1);
    for (int64_t layer = 0; layer < config_.layers; ++layer)
      x = Layer("layer" + std::to_string(layer), x, bias);
    x = Norm("last", x);
    Hidden hidden{x.select(1, 0), {}, {}};
    if (has_tokens()) {
      hidden.tokens = x.slice(1, 1, 1 + batch_.length);
      hidden.mask = masks[1];
    }
    return hidden;
  }

  at::Tensor Layer(const std::string& name, const at::Tensor& x, const at::Tensor& bias) const {
    const at::Tensor middle =
        x + Drop(Attention(name + ".attention", Norm(name + ".before", x), bias));
    const at::Tensor wide = at::gelu(Linear(name + ".wide", Norm(name + ".between", middle)));
    return middle + Drop(Linear(name + ".narrow", wide));
  }

  at::Tensor Attention(const std::string& name, const at::Tensor& x, const at::Tensor& bias) const {
    const int64_t steps = x.size(0), length = x.size(1), width = config_.d_model / config_.heads;
    const at::Tensor joint = Linear(name + ".in", x)
                                 .view({steps, length, 3, config_.heads, width})
                                 .permute({2, 0, 3, 1, 4});
    const at::Tensor mask = bias.expand({steps, config_.heads, length, length});
    const at::Tensor mixed = at::scaled_dot_product_attention(joint[0], joint[1], joint[2], mask);
    return Linear(name + ".out", mixed.transpose(1, 2).reshape({steps, length, config_.d_model}));
  }

  /// The summary, the largest activation of every column (one odd token must not drown) and what
  /// the pointer points at.
  at::Tensor Pool(const Hidden& hidden, const at::Tensor& token_log) const {
    if (!has_tokens()) return hidden.summary;
    const at::Tensor pointed = at::bmm(at::exp(token_log).unsqueeze(1), hidden.tokens).squeeze(1);
    if (batch_.length == 0) return at::cat({hidden.summary, at::zeros_like(pointed), pointed}, 1);
    const at::Tensor far = ((hidden.mask - 1) * -kFar).unsqueeze(2);
    return at::cat({hidden.summary, (hidden.tokens + far).amax(1).clamp_min(-100), pointed}, 1);
  }

  void Point(const Hidden& hidden, Heads& heads) const {
    const at::Tensor far = (hidden.mask - 1) * -kFar;
    const at::Tensor query = Linear("pointer.query", hidden.summary).unsqueeze(2);
    const at::Tensor key = Linear("pointer.key", hidden.tokens);
    const double scale = 1 / std::sqrt(static_cast<double>(config_.d_model));
    const at::Tensor scores = at::bmm(key, query).squeeze(2) * scale +
                              Perceptron("pointer.token", hidden.tokens).squeeze(2);
    const at::Tensor none = Linear("pointer.none", hidden.summary);
    const at::Tensor both = at::log_softmax(at::cat({none, scores + far}, 1), 1);
    heads.none = both.select(1, 0);
    heads.token = both.slice(1, 1);
    if (!batch_.node_token.empty()) heads.node = PointInside(hidden, heads.token);
    heads.rank = Ranks(hidden);
  }

  /// Log probability of every node: of its token times of the node in it.
  at::Tensor PointInside(const Hidden& hidden, const at::Tensor& token_log) const {
    const auto nodes = static_cast<int64_t>(batch_.node_token.size());
    const int64_t cells = batch_.steps * batch_.length;
    const at::Tensor token = Integers(batch_.node_token, {nodes});
    const at::Tensor context =
        Linear("node.token", hidden.tokens).reshape({cells, kNodeWidth}).index_select(0, token);
    const at::Tensor inside =
        context + at::embedding(P("node.symbol"), Integers(batch_.node_symbol, {nodes})) +
        Linear("node.values", Floats(batch_.node_values, {nodes, kNodeValues}));
    const at::Tensor score = Linear("node.out", at::gelu(inside)).squeeze(1);
    const at::Tensor whole = SegmentLogSumExp(score, token, cells).index_select(0, token);
    return score - whole + token_log.reshape({cells}).index_select(0, token);
  }

  /// A rank's evidence is that of its tokens together, so that any number of ranks can be told
  /// apart.
  at::Tensor Ranks(const Hidden& hidden) const {
    const at::Tensor rank = Integers(batch_.token_ranks, {batch_.steps, batch_.length});
    const at::Tensor step = at::arange(batch_.steps, at::kLong).unsqueeze(1) * batch_.ranks;
    const at::Tensor score =
        Perceptron("rank", hidden.tokens).squeeze(2) + (hidden.mask - 1) * -kFar;
    const at::Tensor sums = SegmentLogSumExp(
        score.reshape({-1}), (rank.clamp_max(batch_.ranks - 1) + step).reshape({-1}),
        batch_.steps * batch_.ranks);
    const at::Tensor present = Floats(batch_.rank_mask, {batch_.steps, batch_.ranks});
    return at::log_softmax(
        sums.reshape({batch_.steps, batch_.ranks}).clamp_min(-1e4) + (present - 1) * -kFar, 1);
  }

  const Parameters& parameters_;
  const ModelConfig& config_;
  const InputShape& shape_;
  const Batch& batch_;
  bool training_;
};

/// Builds parameters in a fixed order.
class Builder {
 public:
  Builder(Parameters& parameters, const ModelConfig& config)
      : parameters_(parameters), config_(config) {}

  void Linear(const std::string& name, int64_t in, int64_t out) {
    parameters_.Add(name + ".weight", {out, in}, std::sqrt(1.0 / static_cast<double>(in)));
    parameters_.Add(name + ".bias", {out}, 0);
  }
  void Perceptron(const std::string& name, int64_t in, int64_t out) {
    Linear(name + ".in", in, config_.d_model);
    Linear(name + ".out", config_.d_model, out);
  }
  void Norm(const std::string& name) {
    parameters_.Add(name + ".weight", {config_.d_model}, -1);
    parameters_.Add(name + ".bias", {config_.d_model}, 0);
  }
  void Table(const std::string& name, int64_t rows, int64_t width) {
    parameters_.Add(name, {rows, width}, kEmbeddingDeviation);
  }

  /// Fixed sinusoids (Vaswani et al. 2017, section 3.5), scaled to the size of learned embeddings.
  void Positions() {
    std::vector<float> table;
    for (int64_t row = 0; row < kPositionRows; ++row) {
      for (int64_t column = 0; column < config_.d_model; ++column) {
        const double rate = std::pow(
            1e4, -static_cast<double>(column / 2 * 2) / static_cast<double>(config_.d_model));
        const double angle = static_cast<double>(row) * rate;
        table.push_back(
            static_cast<float>(0.1 * (column % 2 == 0 ? std::sin(angle) : std::cos(angle))));
      }
    }
    parameters_.AddFixed("position", {kPositionRows, config_.d_model}, table);
  }
  void Inputs(const InputShape& shape) {
    Positions();
    parameters_.Add("summary", {config_.d_model}, kEmbeddingDeviation);
    if (config_.modalities.numbers && !shape.number_names.empty()) {
      Linear("numbers", 2 * static_cast<int64_t>(shape.number_names.size()), config_.d_model);
    }
    if (config_.modalities.localizer && !shape.localizer_names.empty()) {
      Linear("localizer", static_cast<int64_t>(shape.localizer_names.size()), config_.d_model);
    }
    if (config_.modalities.logs && shape.log_vocabulary > 0) {
      Table("log.id", shape.log_vocabulary, config_.d_model);
      parameters_.Add("log.kind", {config_.d_model}, kEmbeddingDeviation);
      if (config_.attributes.rank) Table("log.rank", kRankRows, config_.d_model);
    }
    if (config_.modalities.tokens) Tokens(shape);
  }
  void Tokens(const InputShape& shape) {
    const int64_t width = config_.d_model;
    Table("token.id", shape.vocabulary_size, width);
    if (config_.attributes.parent) Table("token.parent", shape.vocabulary_size + 1, width);
    if (config_.attributes.layer) Table("token.layer", kLayerRows, width);
    if (config_.attributes.rank) Table("token.rank", kRankRows, width);
    if (config_.attributes.depth) Table("token.depth", kDepthRows, width);
    if (ValueWidth(config_) > 0) Perceptron("token.values", ValueWidth(config_), width);
  }
  void Layer(const std::string& name) {
    Norm(name + ".before");
    Linear(name + ".attention.in", config_.d_model, 3 * config_.d_model);
    Linear(name + ".attention.out", config_.d_model, config_.d_model);
    Norm(name + ".between");
    Linear(name + ".wide", config_.d_model, config_.feed_forward);
    Linear(name + ".narrow", config_.feed_forward, config_.d_model);
  }
  void Heads(int64_t kinds) {
    const int64_t width = config_.d_model;
    const int64_t pooled = config_.modalities.tokens ? 3 * width : width;
    Perceptron("abnormal", pooled, 1);
    Perceptron("kind", pooled, kinds);
    if (!config_.modalities.tokens) return;
    Linear("pointer.query", width, width);
    Linear("pointer.key", width, width);
    Perceptron("pointer.token", width, 1);
    Linear("pointer.none", width, 1);
    Linear("node.token", width, kNodeWidth);
    Table("node.symbol", kSymbolRows, kNodeWidth);
    Linear("node.values", kNodeValues, kNodeWidth);
    Linear("node.out", kNodeWidth, 1);
    Perceptron("rank", width, 1);
  }

 private:
  Parameters& parameters_;
  const ModelConfig& config_;
};

struct LossTensors {
  at::Tensor abnormal, kind, pointer, rank;
};

at::Tensor KindLoss(const Heads& heads, const Batch& batch, int64_t kinds) {
  const at::Tensor target = Floats(batch.kind, {batch.steps, kinds});
  const at::Tensor weight = Floats(batch.kind_weight, {batch.steps, 1});
  const at::Tensor each =
      at::binary_cross_entropy_with_logits(heads.kind, target, {}, {}, at::Reduction::None);
  return (each * weight).sum() / (weight.sum() + 1e-6);
}

/// Mean over steps with a target of -log of the probability of all right answers together.
at::Tensor PointerLoss(const Heads& heads, const Batch& batch) {
  const int64_t answers = batch.hit_steps + static_cast<int64_t>(batch.none_step.size());
  at::Tensor sum = at::zeros({});
  if (batch.hit_steps > 0) {
    const auto hits = static_cast<int64_t>(batch.hit_node.size());
    const at::Tensor log = heads.node.index_select(0, Integers(batch.hit_node, {hits}));
    sum = sum - SegmentLogSumExp(log, Integers(batch.hit_step, {hits}), batch.hit_steps).sum();
  }
  if (!batch.none_step.empty()) {
    sum = sum - heads.none.index_select(0, Integers(batch.none_step, {-1})).sum();
  }
  return sum / static_cast<double>(std::max<int64_t>(1, answers));
}

at::Tensor RankLoss(const Heads& heads, const Batch& batch) {
  if (batch.rank_step.empty() || !heads.rank.defined()) return at::zeros({});
  const auto rows = static_cast<int64_t>(batch.rank_step.size());
  const at::Tensor log = heads.rank.index_select(0, Integers(batch.rank_step, {rows}));
  return at::nll_loss(log, Integers(batch.rank_target, {rows}));
}

LossTensors LossesOf(const Heads& heads, const Batch& batch, int64_t kinds) {
  LossTensors losses;
  losses.abnormal =
      at::binary_cross_entropy_with_logits(heads.abnormal, Floats(batch.abnormal, {batch.steps}));
  losses.kind = kinds > 0 ? KindLoss(heads, batch, kinds) : at::zeros({});
  losses.pointer = heads.token.defined() ? PointerLoss(heads, batch) : at::zeros({});
  losses.rank = RankLoss(heads, batch);
  return losses;
}

}  // namespace

Network::Network(const ModelConfig& config, const InputShape& shape, int64_t kinds, int64_t seed)
    : config_(config), shape_(shape), kinds_(kinds), seed_(seed), parameters_(seed) {
  Builder builder(parameters_, config_);
  builder.Inputs(shape_);
  for (int64_t layer = 0; layer < config_.layers; ++layer)
    builder.Layer("layer" + std::to_string(layer));
  builder.Norm("last");
  builder.Heads(kinds_);
}
Network::~Network() = default;

Outputs Network::Predict(const Batch& batch) const {
  const c10::NoGradGuard no_gradient;
  const Heads heads = Pass(parameters_, config_, shape_, batch, false).Run();
  Outputs outputs{ToVector(heads.abnormal), ToVector(heads.kind), {}, {}, {}};
  if (heads.rank.defined()) outputs.rank = ToVector(heads.rank);
  if (heads.none.defined()) outputs.none = ToVector(heads.none);
  if (heads.node.defined()) outputs.node = ToVector(heads.node);
  return outputs;
}

Losses Network::Gradients(const Batch& batch, int64_t update) {
  parameters_.ZeroGradients();
  // Dropout draws from the default generator; seeding it by update lets a resumed training draw the
  // same.
  at::manual_seed(static_cast<uint64_t>(seed_) * 0x9e3779b97f4a7c15u +
                  static_cast<uint64_t>(update));
  const Heads heads = Pass(parameters_, config_, shape_, batch, true).Run();
  const LossTensors parts = LossesOf(heads, batch, kinds_);
  const at::Tensor total = parts.abnormal + parts.kind * config_.kind_weight +
                           parts.pointer * config_.pointer_weight +
                           parts.rank * config_.rank_weight;
  total.backward();
  return {total.item<double>(),         parts.abnormal.item<double>(), parts.kind.item<double>(),
          parts.pointer.item<double>(), parts.rank.item<double>(),     0};
}

Losses Network::Train(const Batch& batch, int64_t update, double learning_rate) {
  Losses losses = Gradients(batch, update);
  losses.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(losses.total)) {
    losses.gradient_norm = parameters_.Step(learning_rate, config_.weight_decay, config_.clip);
  }
  return losses;
}

}  // namespace teller::model
