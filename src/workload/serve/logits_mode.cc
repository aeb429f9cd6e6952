#include "src/workload/serve/logits_mode.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/workload/serve/completions.h"

namespace teller::serve {
namespace {

using nlohmann::json;

std::vector<EngineRequest> ReadRequests(const std::filesystem::path& file,
                                        const ModelOptions& model,
                                        const text::SentencePieces& pieces) {
  const json root =
      json::parse(ReadFile(file, std::size_t{1} << 20), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("prompts") || !root["prompts"].is_array()) {
    throw DataError(file.string() + R"(: expected {"max_tokens":N,"prompts":[...]})");
  }
  std::vector<EngineRequest> requests;
  for (const json& prompt : root["prompts"]) {
    const json body = {{"prompt", prompt},
                       {"max_tokens", root.value("max_tokens", json(8))},
                       {"ignore_eos", true}};
    CompletionRequest request;
    if (const auto error = ParseCompletion(body.dump(), model, pieces, request)) {
      throw DataError(file.string() + ": prompt " + std::to_string(requests.size()) + ": " +
                      error->message);
    }
    request.engine.id = std::to_string(requests.size());
    requests.push_back(std::move(request.engine));
  }
  return requests;
}

}  // namespace

std::string DecodePrompts(const std::filesystem::path& file, const ModelOptions& model,
                          const text::SentencePieces& pieces, Engine& engine, Decoder& decoder) {
  auto requests = ReadRequests(file, model, pieces);
  std::vector<json> answers(requests.size(),
                            {{"tokens", json::array()}, {"logits", json::array()}});
  engine.Observe([&](const Scheduler::Decision&, const std::vector<Scheduler::Outcome>& outcomes) {
    auto rows = decoder.Logits();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      json& answer = answers[std::stoul(outcomes[i].id)];
      answer["tokens"].push_back(outcomes[i].token);
      answer["logits"].push_back(std::move(rows[i]));
    }
  });
  for (EngineRequest& request : requests) {
    if (const std::string why = engine.WhyNever(request); !why.empty())
      throw DataError(file.string() + ": " + why);
    engine.Submit(std::move(request));
  }
  engine.RunUntilIdle();
  return json({{"prompts", answers}}).dump();
}

}  // namespace teller::serve
