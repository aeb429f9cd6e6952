#include "src/dataset/vocabulary_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"

namespace teller::dataset {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchemaName = "vocabulary";
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

Json Merges(const tpe::Vocabulary& vocabulary) {
  Json merges = Json::array();
  for (std::size_t i = vocabulary.symbols.size(); i < vocabulary.entries.size(); ++i) {
    const tpe::Entry& entry = vocabulary.entries[i];
    merges.push_back({entry.left, entry.right, entry.depth_step, entry.count});
  }
  return merges;
}

Json Inputs(const VocabularyFile& file) {
  Json inputs = Json::array();
  for (const auto& [name, hash] : file.inputs) inputs.push_back({{"name", name}, {"hash", hash}});
  return inputs;
}

Json ToJson(const VocabularyFile& file) {
  const tpe::Vocabulary& vocabulary = file.vocabulary;
  return {{"schema_name", kSchemaName},
          {"schema_version", "1.0"},
          {"encoder_version", kEncoderVersion},
          {"hash", VocabularyHash(vocabulary)},
          {"mode", tpe::ModeName(vocabulary.mode)},
          {"parameters",
           {{"size", file.options.size},
            {"min_pair_count", file.options.min_pair_count},
            {"target_cut", file.options.target_cut}}},
          {"exhausted", vocabulary.exhausted},
          {"corpus",
           {{"hash", fmt::format("{:016x}", vocabulary.corpus_hash)},
            {"sequences", file.sequences},
            {"atoms", vocabulary.corpus_atoms},
            {"tokens", vocabulary.corpus_tokens},
            {"inputs", Inputs(file)}}},
          {"symbols", vocabulary.symbols},
          {"merges", Merges(vocabulary)}};
}

void CheckVersion(const Json& json) {
  if (json.at("schema_name") != kSchemaName) throw DataError("it is no vocabulary");
  const auto version = json.at("schema_version").get<std::string>();
  if (!version.starts_with("1.")) {
    throw DataError(fmt::format("schema version {}, expected 1.x", version));
  }
  const int encoder = json.at("encoder_version").get<int>();
  if (encoder != kEncoderVersion) {
    throw DataError(fmt::format("it is for encoder version {}, this is {}; train it again", encoder,
                                kEncoderVersion));
  }
}

VocabularyFile FromJson(const Json& json) {
  CheckVersion(json);
  VocabularyFile file;
  tpe::Vocabulary& vocabulary = file.vocabulary;
  vocabulary.mode = tpe::ParseMode(json.at("mode").get<std::string>());
  file.options.mode = vocabulary.mode;
  file.options.size = json.at("parameters").at("size").get<std::size_t>();
  file.options.min_pair_count = json.at("parameters").at("min_pair_count").get<uint64_t>();
  file.options.target_cut = json.at("parameters").at("target_cut").get<double>();
  vocabulary.exhausted = json.at("exhausted").get<bool>();
  const Json& corpus = json.at("corpus");
  vocabulary.corpus_hash = std::stoull(corpus.at("hash").get<std::string>(), nullptr, 16);
  file.sequences = corpus.at("sequences").get<uint64_t>();
  vocabulary.corpus_atoms = corpus.at("atoms").get<uint64_t>();
  vocabulary.corpus_tokens = corpus.at("tokens").get<uint64_t>();
  for (const Json& input : corpus.at("inputs")) {
    file.inputs.emplace_back(input.at("name"), input.at("hash"));
  }
  vocabulary.symbols = json.at("symbols").get<std::vector<std::string>>();
  for (uint32_t symbol = 0; symbol < vocabulary.symbols.size(); ++symbol) {
    vocabulary.entries.push_back({.symbol = symbol});
  }
  for (const Json& merge : json.at("merges")) {
    vocabulary.entries.push_back({.left = merge.at(0).get<int32_t>(),
                                  .right = merge.at(1).get<int32_t>(),
                                  .depth_step = merge.at(2).get<int32_t>(),
                                  .count = merge.at(3).get<uint64_t>()});
  }
  tpe::CheckVocabulary(vocabulary);
  if (json.at("hash") != VocabularyHash(vocabulary)) {
    throw DataError("its hash does not fit its symbols and merges; the file was changed");
  }
  return file;
}

}  // namespace

std::string VocabularyHash(const tpe::Vocabulary& vocabulary) {
  const Json content = {tpe::ModeName(vocabulary.mode), vocabulary.symbols, Merges(vocabulary)};
  return HashHex(content.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void WriteVocabulary(const std::filesystem::path& path, const VocabularyFile& vocabulary,
                     bool force) {
  // One line a key, and one a merge, so that two vocabularies can be compared by eye.
  std::string text = "{\n";
  const Json json = ToJson(vocabulary);
  for (const auto& [key, value] : json.items()) {
    const auto dump = [](const Json& part) {
      return part.dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    text += fmt::format("{}\"{}\": ", text.size() > 2 ? ",\n" : "", key);
    if (key != "symbols" && key != "merges") {
      text += dump(value);
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      text += fmt::format("{}\n{}", i > 0 ? "," : "", dump(value[i]));
    }
    text += "\n]";
  }
  WriteFileAtomically(path, text + "\n}\n", force);
}

VocabularyFile ReadVocabulary(const std::filesystem::path& path) {
  const Json json = Json::parse(ReadFile(path, kMaxBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw DataError(fmt::format("{}: expected a vocabulary, found no JSON object", path.string()));
  try {
    return FromJson(json);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: expected a vocabulary: {}", path.string(), error.what()));
  } catch (const std::logic_error& error) {  // stoull
    throw DataError(fmt::format("{}: corpus.hash is no hexadecimal number", path.string()));
  } catch (const Error& error) {
    throw DataError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace teller::dataset
