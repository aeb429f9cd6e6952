#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/core/ids.h"
#include "src/dataset/labels.h"

namespace teller::dataset {

/// One token of one step with its attributes (docs/design.md, section 7). Times are nanoseconds.
struct StepToken {
  uint32_t id = 0;     ///< vocabulary entry
  uint16_t rank = 0;   ///< position in the run's ranks, not the rank's number
  uint16_t track = 0;  ///< index into the forest's tracks
  uint8_t layer = 0;   ///< of its first node
  uint16_t depth = 0;
  int32_t parent_token = -1;  ///< index in the step's tokens; -1: root
  uint16_t parent_node = 0;   ///< which node of that token
  uint32_t first_node = 0;    ///< index in StepTokens::nodes
  uint32_t node_count = 0;
  int64_t host_ns = 0;         ///< additive: host self time, elided time included
  int64_t device_ns = 0;       ///< additive: device busy time, elided time included
  int64_t root_ns = 0;         ///< duration of its first node (a feature, not additive)
  float residual = 0;          ///< largest standardised residual of its nodes
  uint32_t residual_node = 0;  ///< which of its nodes has it
};

/// One node below a token, so that the pointer can reach inside. Where an atom is not a node (the
/// type tags of 'adjacency-published'), it has no TokenNode.
struct TokenNode {
  NodeId node = kNoNode;  ///< in the step's forest
  SymbolId symbol{};      ///< in TokensFile::symbols
  uint16_t rank = 0;
  float residual = 0;
  float log_duration = 0;  ///< natural log of 1 + duration in ns
  uint8_t suspect = 0;     ///< 1 + place among the localiser's top K; 0: none of them
};

struct StepTokens {
  int64_t engine_step = 0;
  std::vector<StepToken> tokens;
  std::vector<TokenNode> nodes;  ///< in the order of tokens
  std::vector<std::string>
      log_text;  ///< aligned, masked log lines in time order; the model room tokenises them
  std::vector<uint16_t> log_rank;  ///< by log line: position in the run's ranks
  std::vector<float> numbers;      ///< step-level numbers, columns as in steps.h5
  std::vector<float>
      localizer;  ///< localiser's features of the step, columns: TokensFile::localizer_names
  uint32_t forest_nodes = 0;  ///< of the whole step, all ranks
  uint32_t forest_atoms = 0;  ///< its atoms: two a node in 'adjacency-published', else one
  uint32_t forest_tokens =
      0;  ///< the whole step encoded: compression = 1 - forest_tokens / forest_nodes
  uint32_t slice_nodes = 0;
  uint32_t unknown_symbols = 0;  ///< nodes of the slice whose symbol the vocabulary lacks
  uint8_t decodes = 0;  ///< 1: the tokens' ids and depths decode to the slice's symbols (those the
                        ///< vocabulary knows), depths and parents
  uint8_t times_add_up = 0;  ///< 1: on every track the tokens' host_ns and device_ns sum to those
                             ///< of the whole forest, to the nanosecond
  StepLabel label;
};

/// One run, encoded with one vocabulary (docs/schema/tokens.md).
struct TokensFile {
  std::string run_id;
  std::string engine;
  std::string mode;      ///< 'structural', 'adjacency' or 'adjacency-published'
  std::string barriers;  ///< what never merges: 'none', 'suspects' (preserve), 'random' (control)
  std::string vocabulary_hash;
  uint32_t vocabulary_size = 0;  ///< entries; every StepToken::id is below it
  std::vector<std::string> symbols;
  std::vector<int32_t> ranks;
  std::vector<std::string> number_names;
  std::vector<std::string> localizer_names;
  std::vector<std::pair<std::string, std::string>>
      inputs;  ///< file name and HashFileHex of what it was made from
  std::vector<StepTokens> steps;
};

/// Written beside and renamed; throws ConfigError where it exists and `force` is false.
void WriteTokens(const std::filesystem::path& path, const TokensFile& tokens, bool force = false);
/// Throws DataError: missing, foreign, truncated, another major version, anything out of range.
TokensFile ReadTokens(const std::filesystem::path& path);

}  // namespace teller::dataset
