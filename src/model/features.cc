#include "src/model/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/model/token_times.h"

namespace teller::model {
namespace {

constexpr float kLargestDeviation = 8;  // spreads; beyond that a value says 'far' and nothing more

float Clipped(float value) { return std::clamp(value, -kLargestDeviation, kLargestDeviation); }

template <typename T>
T Row(int64_t value, int64_t rows) {
  return static_cast<T>(std::clamp<int64_t>(value, 0, rows - 1));
}

/// Position of every token on its track (a track belongs to one rank).
std::vector<uint16_t> TrackPositions(const dataset::StepTokens& step) {
  std::vector<uint16_t> positions(step.tokens.size());
  uint32_t next = 0;
  for (std::size_t i = 0; i < step.tokens.size(); ++i) {
    const bool same = i > 0 && step.tokens[i - 1].track == step.tokens[i].track;
    next = same ? next + 1 : 0;
    positions[i] = Row<uint16_t>(next, kPositionRows);
  }
  return positions;
}

class FeatureBuilder {
 public:
  FeatureBuilder(const dataset::TokensFile& run, const InputShape& shape,
                 const Standardization& standardization, const LogPieces& pieces,
                 const ModelConfig& config)
      : run_(run),
        shape_(shape),
        standard_(standardization),
        pieces_(pieces),
        config_(config),
        numbers_offset_(FitNumbersOffset(run)),
        clock_(run, standardization, config.attributes.rank) {
    for (const std::string& symbol : run.symbols) {
      symbol_row_.push_back(static_cast<uint16_t>(Hash64(symbol) % kSymbolRows));
    }
  }

  StepFeatures Build(const dataset::StepTokens& step) const {
    StepFeatures features;
    features.ranks = static_cast<uint16_t>(run_.ranks.size());
    if (config_.modalities.tokens) AddTokens(step, features);
    if (config_.modalities.logs) AddLogs(step, features);
    if (config_.modalities.numbers) AddNumbers(step, features);
    if (config_.modalities.localizer) AddLocalizer(step, features);
    return features;
  }

 private:
  void AddTokens(const dataset::StepTokens& step, StepFeatures& out) const {
    out.source = SelectTokens(step, config_);
    out.cut_tokens = static_cast<uint32_t>(step.tokens.size() - out.source.size());
    const std::vector<uint16_t> positions = TrackPositions(step);
    const std::vector<TokenTimes> times = clock_.Read(step);
    for (std::size_t kept = 0; kept < out.source.size(); ++kept) {
      const dataset::StepToken& token = step.tokens[out.source[kept]];
      out.id.push_back(static_cast<int32_t>(token.id));
      out.parent.push_back(token.parent_token < 0
                               ? 0
                               : static_cast<int32_t>(step.tokens[token.parent_token].id) + 1);
      out.layer.push_back(Row<uint8_t>(token.layer, kLayerRows));
      out.rank.push_back(Row<uint8_t>(token.rank, kRankRows));
      out.depth.push_back(Row<uint8_t>(token.depth, kDepthRows));
      out.position.push_back(positions[out.source[kept]]);
      AddValues(token, times[out.source[kept]], out);
      AddNodes(step, token, static_cast<uint32_t>(kept), out);
    }
  }

  void AddValues(const dataset::StepToken& token, const TokenTimes& times,
                 StepFeatures& out) const {
    for (int c = 0; c < kChannelCount; ++c) {
      if (!config_.attributes.channel(static_cast<Channel>(c))) continue;
      const TokenTime& time = times[c];
      out.values.insert(out.values.end(),
                        {time.size, time.deviation, time.relative, time.contrast});
    }
    if (config_.attributes.residual) {
      if (!std::isfinite(token.residual)) ++out.replaced;
      out.values.push_back(SignedLog(token.residual));
    }
    if (config_.attributes.node_count) {
      out.values.push_back(std::log(static_cast<float>(std::max<uint32_t>(1, token.node_count))));
    }
  }

  void AddNodes(const dataset::StepTokens& step, const dataset::StepToken& token, uint32_t kept,
                StepFeatures& out) const {
    for (uint32_t i = 0; i < token.node_count; ++i) {
      const dataset::TokenNode& node = step.nodes[token.first_node + i];
      NodeFeature feature{kept, token.first_node + i, symbol_row_[Index(node.symbol)], {}};
      if (config_.attributes.residual) feature.values[0] = SignedLog(node.residual);
      if (config_.attributes.root && std::isfinite(node.log_duration)) {
        const Moments& whole = standard_.channel[static_cast<int>(Channel::kRoot)];
        feature.values[1] = Clipped((node.log_duration - whole.mean) / whole.scale);
      }
      feature.values[2] = static_cast<float>(i) / static_cast<float>(token.node_count);
      out.nodes.push_back(feature);
    }
  }

  void AddLogs(const dataset::StepTokens& step, StepFeatures& out) const {
    const auto room = static_cast<std::size_t>(config_.log_length);
    for (std::size_t line = 0; line < step.log_text.size(); ++line) {
      for (const int32_t piece : pieces_.Encode(step.log_text[line])) {
        if (out.logs.size() == room) {
          ++out.cut_logs;
          continue;
        }
        out.logs.push_back(piece);
        out.log_ranks.push_back(Row<uint8_t>(step.log_rank[line], kRankRows));
      }
    }
  }

  void AddNumbers(const dataset::StepTokens& step, StepFeatures& out) const {
    const std::size_t columns = shape_.number_names.size();
    out.numbers.resize(2 * columns);
    for (std::size_t c = 0; c < columns; ++c) {
      if (!std::isfinite(step.numbers[c])) ++out.replaced;
      const float value = SignedLog(step.numbers[c]);
      out.numbers[c] = Clipped((value - standard_.numbers[c].mean) / standard_.numbers[c].scale);
      const Moments& relative = standard_.numbers_relative[c];
      if (numbers_offset_.steps == 0) continue;  // no calibration window: nothing to be relative to
      out.numbers[columns + c] =
          Clipped((value - numbers_offset_.median[c] - relative.mean) / relative.scale);
    }
  }

  void AddLocalizer(const dataset::StepTokens& step, StepFeatures& out) const {
    for (std::size_t c = 0; c < step.localizer.size(); ++c) {
      const float raw = step.localizer[c];
      if (!std::isfinite(raw)) ++out.replaced;
      out.localizer.push_back(
          Clipped((SignedLog(raw) - standard_.localizer[c].mean) / standard_.localizer[c].scale));
    }
  }

  const dataset::TokensFile& run_;
  const InputShape& shape_;
  const Standardization& standard_;
  const LogPieces& pieces_;
  const ModelConfig& config_;
  NumbersOffset numbers_offset_;
  TokenClock clock_;
  std::vector<uint16_t> symbol_row_;
};

[[noreturn]] void RunError(const dataset::TokensFile& run, const std::string& message) {
  throw DataError("tokens of run '" + run.run_id + "': " + message);
}

void CheckToken(const dataset::TokensFile& run, const dataset::StepTokens& step,
                const dataset::StepToken& token) {
  const std::string where = "step " + std::to_string(step.engine_step) + ": ";
  if (token.id >= run.vocabulary_size)
    RunError(run, where + "a token id is outside the vocabulary");
  if (token.rank >= run.ranks.size())
    RunError(run, where + "a token's rank is outside the run's ranks");
  if (token.parent_token >= static_cast<int64_t>(step.tokens.size())) {
    RunError(run, where + "a token's parent is outside the step");
  }
  if (uint64_t{token.first_node} + token.node_count > step.nodes.size()) {
    RunError(run, where + "a token's nodes are outside the step");
  }
}

void CheckStep(const dataset::TokensFile& run, const dataset::StepTokens& step) {
  for (const auto& token : step.tokens) CheckToken(run, step, token);
  for (const auto& node : step.nodes) {
    if (Index(node.symbol) >= run.symbols.size()) {
      RunError(run, "step " + std::to_string(step.engine_step) +
                        ": a node's symbol is outside the table");
    }
  }
  if (step.numbers.size() != run.number_names.size() ||
      step.localizer.size() != run.localizer_names.size() ||
      step.log_rank.size() != step.log_text.size()) {
    RunError(run, "step " + std::to_string(step.engine_step) +
                      ": numbers, localiser features or log ranks are short");
  }
}

void CheckColumns(const dataset::TokensFile& run, const std::string& what,
                  const std::vector<std::string>& found, const std::vector<std::string>& expected) {
  if (found == expected) return;
  RunError(run, "its " + what + " are not the model's: found " + std::to_string(found.size()) +
                    " columns, expected " + std::to_string(expected.size()) +
                    " of the same names and order");
}

int32_t RankPosition(const dataset::TokensFile& run, RankId rank) {
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    if (run.ranks[i] == static_cast<int32_t>(rank)) return static_cast<int32_t>(i);
  }
  return -1;
}

/// Kept nodes of the culprit's rank, by how well they answer the label: hit and named, hit, named;
/// the best non-empty.
std::vector<uint32_t> TargetNodes(const dataset::TokensFile& run, const dataset::StepTokens& step,
                                  const StepFeatures& features, int32_t rank) {
  const dataset::StepLabel& label = step.label;
  std::array<std::vector<uint32_t>, 3> found;
  for (uint32_t i = 0; i < features.nodes.size(); ++i) {
    const dataset::TokenNode& node = step.nodes[features.nodes[i].source];
    if (rank >= 0 && node.rank != rank) continue;
    const bool named = run.symbols[Index(node.symbol)] == label.culprit_symbol;
    const bool hit = std::find(label.hit_nodes.begin(), label.hit_nodes.end(), node.node) !=
                     label.hit_nodes.end();
    if (hit || named) found[named ? (hit ? 0 : 1) : 2].push_back(i);
  }
  for (auto& nodes : found) {
    if (!nodes.empty()) return nodes;
  }
  return {};
}

}  // namespace

int64_t ValueWidth(const ModelConfig& config) {
  int64_t width = (config.attributes.residual ? 1 : 0) + (config.attributes.node_count ? 1 : 0);
  for (int c = 0; c < kChannelCount; ++c) {
    if (config.attributes.channel(static_cast<Channel>(c))) width += kTokenTimeColumns;
  }
  return width;
}

void CheckRun(const dataset::TokensFile& run, const InputShape& shape) {
  if (run.vocabulary_hash != shape.vocabulary_hash ||
      run.vocabulary_size != shape.vocabulary_size) {
    RunError(run, "encoded with vocabulary " + run.vocabulary_hash + " of " +
                      std::to_string(run.vocabulary_size) + " entries, the model expects " +
                      shape.vocabulary_hash + " of " + std::to_string(shape.vocabulary_size) +
                      "; encode it with the model's vocabulary");
  }
  CheckColumns(run, "step numbers", run.number_names, shape.number_names);
  CheckColumns(run, "localiser features", run.localizer_names, shape.localizer_names);
  if (run.ranks.empty() || run.ranks.size() > 65535) RunError(run, "no usable list of ranks");
  for (const auto& step : run.steps) CheckStep(run, step);
}

std::vector<uint32_t> SelectTokens(const dataset::StepTokens& step, const ModelConfig& config) {
  std::vector<uint32_t> kept(step.tokens.size());
  std::iota(kept.begin(), kept.end(), 0u);
  const auto length = static_cast<std::size_t>(config.length);
  if (kept.size() <= length) return kept;
  if (config.selection == Selection::kResidual) {
    const auto residual = [&step](uint32_t i) {
      const float value = step.tokens[i].residual;
      return std::isfinite(value) ? value : 0.0f;
    };
    std::stable_sort(kept.begin(), kept.end(),
                     [&](uint32_t a, uint32_t b) { return residual(a) > residual(b); });
  }
  kept.resize(length);
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<StepFeatures> BuildFeatures(const dataset::TokensFile& run, const InputShape& shape,
                                        const Standardization& standardization,
                                        const LogPieces& pieces, const ModelConfig& config) {
  const FeatureBuilder builder(run, shape, standardization, pieces, config);
  std::vector<StepFeatures> features;
  features.reserve(run.steps.size());
  for (const auto& step : run.steps) features.push_back(builder.Build(step));
  return features;
}

StepTarget BuildTarget(const dataset::TokensFile& run, const dataset::StepTokens& step,
                       const StepFeatures& features, std::span<const std::string> kinds) {
  StepTarget target;
  target.use = IsTrainingStep(step);
  target.abnormal = step.label.status == dataset::LabelStatus::kPositive;
  if (!target.abnormal) return target;
  const auto kind = std::find(kinds.begin(), kinds.end(), step.label.kind);
  if (kind != kinds.end()) target.kind = static_cast<int32_t>(kind - kinds.begin());
  target.rank = RankPosition(run, step.label.culprit_rank);
  if (features.id.empty()) return target;
  if (step.label.culprit_symbol.empty()) {
    target.pointer = PointerTarget::kNone;
    return target;
  }
  target.nodes = TargetNodes(run, step, features, target.rank);
  target.pointer = target.nodes.empty() ? PointerTarget::kUnused : PointerTarget::kNodes;
  return target;
}

}  // namespace teller::model
