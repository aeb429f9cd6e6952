#pragma once

#include <filesystem>
#include <string>

#include "src/text/sentence_pieces.h"
#include "src/workload/serve/decoder.h"
#include "src/workload/serve/engine.h"

namespace teller::serve {

/// Decodes the prompts of `file` greedily through `engine`, all at once, and answers what came out
/// as JSON:
/// {"prompts":[{"tokens":[...],"logits":[[...] a sampled token]}]}. The file:
/// {"max_tokens":8,"prompts":[text or ids]}. Throws DataError where the file is not like that.
std::string DecodePrompts(const std::filesystem::path& file, const ModelOptions& model,
                          const text::SentencePieces& pieces, Engine& engine, Decoder& decoder);

}  // namespace teller::serve
