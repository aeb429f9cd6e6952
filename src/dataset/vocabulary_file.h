#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/tpe/tpe.h"

namespace teller::dataset {

/// Version of the encoding that a vocabulary is for. A file of another version is refused: its
/// merges would mean something else.
inline constexpr int kEncoderVersion = 1;

/// A vocabulary with what it was made from, as vocabulary.json keeps it
/// (docs/schema/vocabulary.md). The text depends on the training data and the parameters only.
struct VocabularyFile {
  tpe::Vocabulary vocabulary;
  tpe::TrainOptions options;
  uint64_t sequences = 0;                                   ///< of the training corpus
  std::vector<std::pair<std::string, std::string>> inputs;  ///< slices files, with HashFileHex
};

/// Names a vocabulary by its mode, symbols and merges: 32 hexadecimal digits.
std::string VocabularyHash(const tpe::Vocabulary& vocabulary);

/// Written beside and renamed; throws ConfigError where it exists and `force` is false.
void WriteVocabulary(const std::filesystem::path& path, const VocabularyFile& vocabulary,
                     bool force = false);
/// Throws DataError: missing, no such JSON, another version, a hash that does not fit, impossible
/// merges.
VocabularyFile ReadVocabulary(const std::filesystem::path& path);

}  // namespace teller::dataset
