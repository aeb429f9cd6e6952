#include "src/model/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/error.h"

namespace teller::model {
namespace {

using Json = nlohmann::json;

constexpr const char* kWhere = "model request";

Json ParseObject(std::string_view text, const std::vector<std::string>& known) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw ConfigError(std::string(kWhere) + ": not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw ConfigError(std::string(kWhere) + ": unknown key '" + key + "'");
    }
  }
  return json;
}

template <typename T>
T Value(const Json& json, const char* key, const char* expected) {
  if (!json.contains(key)) throw ConfigError(std::string(kWhere) + ": '" + key + "' is missing");
  try {
    return json.at(key).get<T>();
  } catch (const Json::exception&) {
    throw ConfigError(std::string(kWhere) + ": '" + key + "': expected " + expected);
  }
}

std::vector<std::filesystem::path> Paths(const Json& json, const char* key) {
  const auto texts = Value<std::vector<std::string>>(json, key, "a list of paths");
  return {texts.begin(), texts.end()};
}

}  // namespace

TrainRequest ParseTrainRequest(std::string_view text) {
  const Json json = ParseObject(text, {"train", "validation", "output", "seed", "config", "force"});
  TrainRequest request;
  request.train = Paths(json, "train");
  if (json.contains("validation")) request.validation = Paths(json, "validation");
  request.output = Value<std::string>(json, "output", "a path");
  if (json.contains("seed")) request.seed = Value<int64_t>(json, "seed", "a whole number");
  if (json.contains("config"))
    request.config = ParseModelConfig(json.at("config").dump(), "config");
  if (json.contains("force")) request.force = Value<bool>(json, "force", "true or false");
  if (request.train.empty()) throw ConfigError(std::string(kWhere) + ": 'train' names no file");
  return request;
}

PredictRequest ParsePredictRequest(std::string_view text) {
  const Json json =
      ParseObject(text, {"model", "tokens", "output", "method", "scored_only", "force"});
  PredictRequest request;
  request.model = Value<std::string>(json, "model", "a path");
  request.tokens = Paths(json, "tokens");
  request.output = Value<std::string>(json, "output", "a path");
  if (json.contains("method")) request.method = Value<std::string>(json, "method", "a name");
  if (json.contains("scored_only"))
    request.scored_only = Value<bool>(json, "scored_only", "true or false");
  if (json.contains("force")) request.force = Value<bool>(json, "force", "true or false");
  if (request.tokens.empty()) throw ConfigError(std::string(kWhere) + ": 'tokens' names no file");
  return request;
}

}  // namespace teller::model
