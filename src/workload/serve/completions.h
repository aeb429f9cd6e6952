#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/text/sentence_pieces.h"
#include "src/workload/serve/scheduler.h"
#include "src/workload/serve/serve_config.h"

namespace teller::serve {

/// Why a request is turned away, as the OpenAI interface says it.
struct RequestError {
  int status = 400;
  std::string message;
  /// {"error":{"message":...,"type":...,"param":null,"code":...}}
  std::string ToJson() const;
};

/// A parsed body of POST /v1/completions.
struct CompletionRequest {
  EngineRequest engine;  ///< without its id
  bool stream = false;
  bool include_usage = false;
};

/// Reads a body: `prompt` (text or token ids; one), `max_tokens`, `ignore_eos`, `stream`,
/// `stream_options`, `model`, `temperature` (0 only: decoding is greedy), `n` (1 only). Other keys
/// are ignored. Anything may be in it.
std::optional<RequestError> ParseCompletion(std::string_view body, const ModelOptions& model,
                                            const text::SentencePieces& pieces,
                                            CompletionRequest& request);

/// Writes the answers to one request.
class CompletionWriter {
 public:
  CompletionWriter(std::string id, std::string model, int64_t created_s, std::size_t prompt_tokens);

  /// One server-sent event: 'data: {...}' and an empty line.
  std::string Chunk(const std::string& text, FinishReason finish) const;
  std::string UsageChunk(std::size_t output_tokens) const;
  static std::string Done() { return "data: [DONE]\n\n"; }
  /// The answer in one piece.
  std::string Whole(const std::string& text, FinishReason finish, std::size_t output_tokens) const;

 private:
  std::string id_, model_;
  int64_t created_s_;
  std::size_t prompt_tokens_;
};

/// The body of GET /v1/models.
std::string ModelsJson(const ModelOptions& model, int64_t created_s);

}  // namespace teller::serve
