#include "src/model/log_pieces.h"

#include <set>
#include <utility>

#include "src/core/error.h"

namespace teller::model {
namespace {

constexpr std::size_t kMostLines =
    20000;  // distinct; log templates are few once numbers are masked
constexpr std::size_t kLongestLine = 4096;  // bytes; a longer one is a dump, not a message

std::string_view Shortened(std::string_view line) { return line.substr(0, kLongestLine); }

}  // namespace

LogPieces LogPieces::Train(std::span<const dataset::TokensFile* const> training,
                           int64_t vocabulary_size) {
  std::set<std::string> lines;
  for (const dataset::TokensFile* run : training) {
    for (const auto& step : run->steps) {
      for (const std::string& line : step.log_text) {
        if (!line.empty() && lines.size() < kMostLines) lines.emplace(Shortened(line));
      }
    }
  }
  LogPieces result;
  if (lines.empty()) return result;
  const std::vector<std::string> sorted(lines.begin(), lines.end());
  try {
    result.pieces_.emplace(text::SentencePieces::Train(
        sorted, {.vocabulary_size = static_cast<int>(vocabulary_size)}));
  } catch (const DataError&) {
    return {};  // too few lines for the smallest vocabulary: the caller sees size() 0 and says so
  }
  return result;
}

LogPieces LogPieces::FromBytes(std::string bytes, std::string_view name) {
  LogPieces result;
  if (!bytes.empty())
    result.pieces_.emplace(text::SentencePieces::FromBytes(std::move(bytes), name));
  return result;
}

std::vector<int32_t> LogPieces::Encode(std::string_view line) const {
  return pieces_ ? pieces_->Encode(Shortened(line)) : std::vector<int32_t>();
}

}  // namespace teller::model
