#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/dataset/tokens_file.h"
#include "src/text/sentence_pieces.h"

namespace teller::model {

/// The pieces that log lines are read as, trained on the training runs' lines alone.
class LogPieces {
 public:
  /// No pieces: every line encodes to nothing.
  LogPieces() = default;
  /// Trains on the distinct lines of `training`, in text order, `vocabulary_size` pieces at most.
  /// Without lines, or with too few to train on, there are no pieces.
  static LogPieces Train(std::span<const dataset::TokensFile* const> training,
                         int64_t vocabulary_size);
  /// Throws DataError where `bytes` are no pieces; empty bytes give none.
  static LogPieces FromBytes(std::string bytes, std::string_view name);

  /// 0: none.
  int64_t size() const { return pieces_ ? pieces_->size() : 0; }
  /// Empty where there are none.
  std::string bytes() const { return pieces_ ? pieces_->bytes() : std::string(); }
  std::vector<int32_t> Encode(std::string_view line) const;

 private:
  std::optional<text::SentencePieces> pieces_;
};

}  // namespace teller::model
