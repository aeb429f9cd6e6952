#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace teller::model {

/// The numeric channels that a token may show the model, in the order of its value columns.
enum class Channel : uint8_t { kHost = 0, kDevice = 1, kRoot = 2 };
inline constexpr int kChannelCount = 3;

/// What of a step the model sees; what is switched off is never read (docs/protocol.md, sections 3
/// and 5).
struct Modalities {
  bool tokens = true;     ///< off: no operator pointer and no rank head either
  bool numbers = true;    ///< step-level numbers
  bool logs = true;       ///< tokens of aligned log lines
  bool localizer = true;  ///< the localiser's step features
};

/// Which attributes a token carries beside its id.
struct TokenAttributes {
  bool layer = true;
  bool rank = true;
  bool depth = true;
  bool parent = true;
  bool host = true;      ///< host self time
  bool device = true;    ///< device busy time
  bool root = true;      ///< duration of its first node
  bool residual = true;  ///< the localiser's largest residual below it
  bool node_count = true;

  bool channel(Channel channel) const;
};

/// Which tokens stay where a step has more than `length`.
enum class Selection : uint8_t { kResidual = 0, kOrder = 1 };

/// All that shapes a model and its training; defaults are the ablation rows' (docs/protocol.md,
/// section 8).
struct ModelConfig {
  int64_t d_model = 64;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t feed_forward = 256;
  int64_t length = 128;          ///< tokens of a step
  int64_t log_length = 64;       ///< pieces of a step's log lines
  int64_t log_vocabulary = 512;  ///< pieces, an upper limit
  double dropout = 0.1;
  Selection selection = Selection::kResidual;
  Modalities modalities;
  TokenAttributes attributes;

  int64_t updates = 200;
  int64_t batch = 32;  ///< steps an update, half of them positive
  int64_t warmup = 20;
  int64_t checkpoint_every = 50;  ///< updates
  double learning_rate = 2e-3;
  double weight_decay = 0.01;
  double clip = 1.0;  ///< largest gradient norm
  double kind_weight = 1.0;
  double pointer_weight = 1.0;
  double rank_weight = 0.5;
};

/// Reads a JSON object over the defaults. Throws ConfigError: unknown key (with the nearest known
/// one), wrong type, out of range; `where` names the source in the message.
ModelConfig ParseModelConfig(std::string_view json, std::string_view where);

/// What no single field shows: throws ConfigError where fields do not fit each other.
void CheckModelConfig(const ModelConfig& config, std::string_view where);

/// The whole configuration as one line of JSON with sorted keys: equal configurations give equal
/// text.
std::string ModelConfigJson(const ModelConfig& config);

}  // namespace teller::model
