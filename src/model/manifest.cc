#include "src/model/manifest.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/version.h"

namespace teller::model {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchemaName = "model";
constexpr const char* kSchemaVersion = "1.0";
constexpr std::size_t kLargestManifest = std::size_t{256} << 20;

Json ToJson(const Moments& moments) { return Json::array({moments.mean, moments.scale}); }

Json ToJson(std::span<const Moments> list) {
  Json json = Json::array();
  for (const Moments& moments : list) json.push_back(ToJson(moments));
  return json;
}

Json ToJson(const Standardization& standardization) {
  Json entries = Json::array();
  for (const auto& entry : standardization.entry) entries.push_back(ToJson(entry));
  return {{"channel", ToJson(standardization.channel)},
          {"entry", std::move(entries)},
          {"entry_count", standardization.entry_count},
          {"numbers", ToJson(standardization.numbers)},
          {"numbers_relative", ToJson(standardization.numbers_relative)},
          {"localizer", ToJson(standardization.localizer)}};
}

Json ToJson(const InputShape& shape) {
  return {{"vocabulary_hash", shape.vocabulary_hash},
          {"vocabulary_size", shape.vocabulary_size},
          {"log_vocabulary", shape.log_vocabulary},
          {"number_names", shape.number_names},
          {"localizer_names", shape.localizer_names}};
}

Json ToJson(const Calibration& calibration) {
  return {{"fitted", calibration.fitted},
          {"temperature", calibration.temperature},
          {"offset", calibration.offset},
          {"steps", calibration.steps},
          {"positives", calibration.positives}};
}

Json ToJson(const TrainingRecord& training) {
  return {{"seed", training.seed},
          {"losses", training.losses},
          {"counts", training.counts},
          {"notes", training.notes}};
}

/// Throws where a number is missing or not finite.
float Finite(const Json& json) {
  const auto value = json.get<double>();
  if (!std::isfinite(value) || std::abs(value) > 1e30) throw DataError("a statistic is not finite");
  return static_cast<float>(value);
}

Moments ReadMoments(const Json& json) {
  if (!json.is_array() || json.size() != 2) throw DataError("a statistic is not [mean, scale]");
  const Moments moments{Finite(json[0]), Finite(json[1])};
  if (!(moments.scale > 0)) throw DataError("a statistic's scale is not above zero");
  return moments;
}

std::vector<Moments> ReadList(const Json& json, std::size_t expected, const char* name) {
  if (!json.is_array() || json.size() != expected) {
    throw DataError(std::string("standardization.") + name + ": expected " +
                    std::to_string(expected) + " entries");
  }
  std::vector<Moments> list;
  for (const Json& item : json) list.push_back(ReadMoments(item));
  return list;
}

Standardization ReadStandardization(const Json& json, const InputShape& shape) {
  const auto channels = [](const Json& list) {
    const std::vector<Moments> read = ReadList(list, kChannelCount, "channel");
    std::array<Moments, kChannelCount> fixed;
    std::copy(read.begin(), read.end(), fixed.begin());
    return fixed;
  };
  Standardization result;
  result.channel = channels(json.at("channel"));
  for (const Json& entry : json.at("entry")) result.entry.push_back(channels(entry));
  result.entry_count = json.at("entry_count").get<std::vector<uint32_t>>();
  const auto entries = static_cast<std::size_t>(shape.vocabulary_size);
  if (result.entry.size() != entries || result.entry_count.size() != entries) {
    throw DataError("standardization.entry: expected one entry a vocabulary entry");
  }
  result.numbers = ReadList(json.at("numbers"), shape.number_names.size(), "numbers");
  result.numbers_relative =
      ReadList(json.at("numbers_relative"), shape.number_names.size(), "numbers_relative");
  result.localizer = ReadList(json.at("localizer"), shape.localizer_names.size(), "localizer");
  return result;
}

InputShape ReadShape(const Json& json) {
  InputShape shape;
  shape.vocabulary_hash = json.at("vocabulary_hash").get<std::string>();
  shape.vocabulary_size = json.at("vocabulary_size").get<int64_t>();
  shape.log_vocabulary = json.at("log_vocabulary").get<int64_t>();
  shape.number_names = json.at("number_names").get<std::vector<std::string>>();
  shape.localizer_names = json.at("localizer_names").get<std::vector<std::string>>();
  if (shape.vocabulary_size < 1 || shape.vocabulary_size > (1 << 24) || shape.log_vocabulary < 0 ||
      shape.log_vocabulary > (1 << 20)) {
    throw DataError("shape: sizes out of range");
  }
  return shape;
}

Calibration ReadCalibration(const Json& json) {
  Calibration calibration;
  calibration.fitted = json.at("fitted").get<bool>();
  calibration.temperature = Finite(json.at("temperature"));
  calibration.offset = Finite(json.at("offset"));
  calibration.steps = json.at("steps").get<int64_t>();
  calibration.positives = json.at("positives").get<int64_t>();
  if (!(calibration.temperature > 0)) throw DataError("calibration.temperature: not above zero");
  return calibration;
}

TrainingRecord ReadTraining(const Json& json) {
  TrainingRecord training;
  training.seed = json.at("seed").get<int64_t>();
  training.losses = json.at("losses").get<std::vector<double>>();
  training.counts = json.at("counts").get<std::map<std::string, int64_t>>();
  training.notes = json.at("notes").get<std::vector<std::string>>();
  return training;
}

void CheckSchema(const Json& json) {
  if (!json.is_object() || json.value("schema_name", "") != kSchemaName)
    throw DataError("not a model description");
  const auto version = json.value("schema_version", "");
  if (std::string_view(version).substr(0, 2) != "1.") {
    throw DataError("schema version '" + version +
                    "', this program reads 1.x; train the model again");
  }
}

/// Weights that a configuration needs at least, so that a small file cannot ask for much memory.
void CheckWeightsSize(const Manifest& manifest, const std::filesystem::path& weights) {
  const ModelConfig& config = manifest.config;
  const int64_t tables = (config.modalities.tokens ? manifest.shape.vocabulary_size : 0) +
                         manifest.shape.log_vocabulary;
  const int64_t layer =
      4 * config.d_model * config.d_model + 2 * config.d_model * config.feed_forward;
  const int64_t least = 4 * (tables * config.d_model + config.layers * layer);
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(weights, error));
  if (error || size < least)
    throw DataError("weights.pt is absent or smaller than the configuration needs");
}

void CheckHash(const std::filesystem::path& path, const std::string& expected) {
  if (HashFileHex(path) != expected) {
    throw DataError(path.filename().string() +
                    " is not the file that was written with this description");
  }
}

Manifest Parse(const std::filesystem::path& folder) {
  const Json json = Json::parse(ReadFile(folder / kManifestName, kLargestManifest));
  CheckSchema(json);
  Manifest manifest;
  manifest.config = ParseModelConfig(json.at("config").dump(), "config");
  manifest.shape = ReadShape(json.at("shape"));
  manifest.kinds = json.at("kinds").get<std::vector<std::string>>();
  if (manifest.kinds.size() > 4096) throw DataError("kinds: too many");
  manifest.standardization = ReadStandardization(json.at("standardization"), manifest.shape);
  manifest.calibration = ReadCalibration(json.at("calibration"));
  manifest.training = ReadTraining(json.at("training"));
  manifest.weights_hash = json.at("weights_hash").get<std::string>();
  manifest.log_pieces_hash = json.at("log_pieces_hash").get<std::string>();
  CheckWeightsSize(manifest, folder / kWeightsName);
  CheckHash(folder / kWeightsName, manifest.weights_hash);
  return manifest;
}

}  // namespace

void WriteManifest(const std::filesystem::path& folder, Manifest manifest) {
  manifest.weights_hash = HashFileHex(folder / kWeightsName);
  const auto pieces = folder / kLogPiecesName;
  manifest.log_pieces_hash = std::filesystem::exists(pieces) ? HashFileHex(pieces) : std::string();
  const Json json = {{"schema_name", kSchemaName},
                     {"schema_version", kSchemaVersion},
                     {"created_by", std::string(Version()) + " (" + Commit() + ")"},
                     {"config", Json::parse(ModelConfigJson(manifest.config))},
                     {"shape", ToJson(manifest.shape)},
                     {"kinds", manifest.kinds},
                     {"standardization", ToJson(manifest.standardization)},
                     {"calibration", ToJson(manifest.calibration)},
                     {"training", ToJson(manifest.training)},
                     {"weights_hash", manifest.weights_hash},
                     {"log_pieces_hash", manifest.log_pieces_hash}};
  WriteFileAtomically(folder / kManifestName, json.dump() + "\n", true);
}

Manifest ReadManifest(const std::filesystem::path& folder) {
  const std::string where = (folder / kManifestName).string() + ": ";
  if (!std::filesystem::exists(folder / kManifestName)) {
    throw DataError(where + "no such model; make one with 'teller train'");
  }
  try {
    return Parse(folder);
  } catch (const Json::exception&) {
    throw DataError(where + "damaged or incomplete; train the model again");
  } catch (const Error& error) {
    throw DataError(where + error.what());
  }
}

LogPieces ReadLogPieces(const std::filesystem::path& folder, const Manifest& manifest) {
  if (manifest.log_pieces_hash.empty()) {
    if (manifest.shape.log_vocabulary == 0) return {};
    throw DataError((folder / kManifestName).string() + ": log pieces are missing");
  }
  const auto path = folder / kLogPiecesName;
  CheckHash(path, manifest.log_pieces_hash);
  LogPieces pieces = LogPieces::FromBytes(ReadFile(path), path.string());
  if (pieces.size() != manifest.shape.log_vocabulary) {
    throw DataError(path.string() + ": found " + std::to_string(pieces.size()) +
                    " pieces, the model expects " + std::to_string(manifest.shape.log_vocabulary));
  }
  return pieces;
}

}  // namespace teller::model
