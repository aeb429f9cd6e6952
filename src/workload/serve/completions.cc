#include "src/workload/serve/completions.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/error.h"
#include "src/workload/serve/annotation.h"

namespace teller::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBodyBytes = std::size_t{1} << 20;

/// Thrown inside ParseCompletion only.
struct Refused {
  RequestError error;
};

[[noreturn]] void Refuse(const std::string& message, int status = 400) {
  throw Refused{{status, message}};
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// A number of `body` between low and high, both included.
int64_t Integer(const json& body, const char* key, int64_t fallback, int64_t low, int64_t high) {
  const auto it = body.find(key);
  if (it == body.end() || it->is_null()) return fallback;
  if (!it->is_number_integer() || it->get<int64_t>() < low || it->get<int64_t>() > high) {
    Refuse(std::string(key) + " must be an integer from " + std::to_string(low) + " to " +
           std::to_string(high));
  }
  return it->get<int64_t>();
}

bool Boolean(const json& body, const char* key) {
  const auto it = body.find(key);
  if (it == body.end() || it->is_null()) return false;
  if (!it->is_boolean()) Refuse(std::string(key) + " must be true or false");
  return it->get<bool>();
}

std::vector<int32_t> PromptIds(const json& ids, const text::SentencePieces& pieces) {
  std::vector<int32_t> prompt;
  for (const json& id : ids) {
    const bool known =
        id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < pieces.size();
    if (!known)
      Refuse("prompt token ids must be integers from 0 to " + std::to_string(pieces.size() - 1));
    prompt.push_back(id.get<int32_t>());
  }
  return prompt;
}

std::vector<int32_t> Prompt(const json& body, const text::SentencePieces& pieces) {
  const auto it = body.find("prompt");
  if (it == body.end()) Refuse("prompt is missing");
  const json& prompt =
      it->is_array() && it->size() == 1 && !it->front().is_number() ? it->front() : *it;
  if (prompt.is_array()) return PromptIds(prompt, pieces);
  if (!prompt.is_string()) Refuse("prompt must be one text or one list of token ids");
  const AnnotatedRange range("tokenize");
  return pieces.Encode(prompt.get_ref<const std::string&>());
}

void RefuseUnsupported(const json& body, const ModelOptions& model) {
  const auto name = body.find("model");
  if (name != body.end() && !name->is_null() && *name != model.name) {
    Refuse("The model `" + (name->is_string() ? name->get<std::string>() : Dump(*name)) +
               "` does not exist.",
           404);
  }
  const auto temperature = body.find("temperature");
  if (temperature != body.end() && !temperature->is_null() && *temperature != 0) {
    Refuse("temperature must be 0: decoding is greedy");
  }
  Integer(body, "n", 1, 1, 1);
}

void Read(const json& body, const ModelOptions& model, const text::SentencePieces& pieces,
          CompletionRequest& request) {
  RefuseUnsupported(body, model);
  request.engine.prompt = Prompt(body, pieces);
  if (request.engine.prompt.empty()) Refuse("prompt is empty");
  request.engine.max_tokens =
      static_cast<int>(Integer(body, "max_tokens", 16, 1, model.max_length));
  const std::size_t total =
      request.engine.prompt.size() + static_cast<std::size_t>(request.engine.max_tokens);
  if (total > static_cast<std::size_t>(model.max_length)) {
    Refuse("This model's maximum context length is " + std::to_string(model.max_length) +
           " tokens. However, you requested " + std::to_string(total) + " tokens.");
  }
  request.engine.stop_token = Boolean(body, "ignore_eos") ? -1 : pieces.end_id();
  request.stream = Boolean(body, "stream");
  const auto options = body.find("stream_options");
  request.include_usage =
      options != body.end() && options->is_object() && Boolean(*options, "include_usage");
}

const char* ReasonName(FinishReason finish) {
  return finish == FinishReason::kStop ? "stop" : "length";
}

json Usage(std::size_t prompt_tokens, std::size_t output_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", output_tokens},
          {"total_tokens", prompt_tokens + output_tokens}};
}

json Completion(const std::string& id, const std::string& model, int64_t created_s, json choices) {
  return {{"id", id},
          {"object", "text_completion"},
          {"created", created_s},
          {"model", model},
          {"choices", std::move(choices)}};
}

json Choice(const std::string& text, FinishReason finish) {
  return {
      {"index", 0},
      {"text", text},
      {"logprobs", nullptr},
      {"finish_reason", finish == FinishReason::kNone ? json(nullptr) : json(ReasonName(finish))}};
}

std::string Event(const json& value) { return "data: " + Dump(value) + "\n\n"; }

}  // namespace

std::string RequestError::ToJson() const {
  const char* type = status == 404 ? "NotFoundError" : "BadRequestError";
  return Dump(
      {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}}}});
}

std::optional<RequestError> ParseCompletion(std::string_view body, const ModelOptions& model,
                                            const text::SentencePieces& pieces,
                                            CompletionRequest& request) {
  try {
    if (body.size() > kMaxBodyBytes) Refuse("the body is larger than 1 MiB", 413);
    const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) Refuse("the body must be a JSON object");
    Read(parsed, model, pieces, request);
    return std::nullopt;
  } catch (const Refused& refused) {
    return refused.error;
  }
}

CompletionWriter::CompletionWriter(std::string id, std::string model, int64_t created_s,
                                   std::size_t prompt_tokens)
    : id_(std::move(id)),
      model_(std::move(model)),
      created_s_(created_s),
      prompt_tokens_(prompt_tokens) {}

std::string CompletionWriter::Chunk(const std::string& text, FinishReason finish) const {
  return Event(Completion(id_, model_, created_s_, json::array({Choice(text, finish)})));
}

std::string CompletionWriter::UsageChunk(std::size_t output_tokens) const {
  json chunk = Completion(id_, model_, created_s_, json::array());
  chunk["usage"] = Usage(prompt_tokens_, output_tokens);
  return Event(chunk);
}

std::string CompletionWriter::Whole(const std::string& text, FinishReason finish,
                                    std::size_t output_tokens) const {
  json whole = Completion(id_, model_, created_s_, json::array({Choice(text, finish)}));
  whole["usage"] = Usage(prompt_tokens_, output_tokens);
  return Dump(whole);
}

std::string ModelsJson(const ModelOptions& model, int64_t created_s) {
  return Dump({{"object", "list"},
               {"data", json::array({{{"id", model.name},
                                      {"object", "model"},
                                      {"created", created_s},
                                      {"owned_by", "teller"},
                                      {"max_model_len", model.max_length}}})}});
}

}  // namespace teller::serve
