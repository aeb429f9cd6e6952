#include "src/text/sentence_pieces.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::text {
namespace {

constexpr std::size_t kMaxModelBytes = std::size_t{64} << 20;

class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(std::span<const std::string> lines) : lines_(lines) {}
  bool done() const override { return next_ == lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> lines_;
  std::size_t next_ = 0;
};

std::string Joined(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ",") + part;
  return joined;
}

/// The first line of a status, so that a message stays one line.
std::string FirstLine(const sentencepiece::util::Status& status) {
  const std::string text = status.ToString();
  return text.substr(0, text.find('\n'));
}

}  // namespace

struct SentencePieces::Processor {
  sentencepiece::SentencePieceProcessor pieces;
};

SentencePieces::SentencePieces(std::string bytes, std::unique_ptr<Processor> processor)
    : bytes_(std::move(bytes)), processor_(std::move(processor)) {}
SentencePieces::~SentencePieces() = default;
SentencePieces::SentencePieces(SentencePieces&&) noexcept = default;

SentencePieces SentencePieces::Train(std::span<const std::string> lines,
                                     const TrainOptions& options) {
  std::unordered_map<std::string, std::string> settings = {
      {"model_type", "bpe"},         {"vocab_size", std::to_string(options.vocabulary_size)},
      {"hard_vocab_limit", "false"}, {"normalization_rule_name", "identity"},
      {"character_coverage", "1.0"}, {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"num_threads", "1"},          {"minloglevel", "2"},
  };
  if (!options.user_symbols.empty()) {
    settings["user_defined_symbols"] = Joined(options.user_symbols);
  }
  LineIterator iterator(lines);
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &bytes);
  if (!status.ok()) {
    throw DataError("training a SentencePiece vocabulary of " +
                    std::to_string(options.vocabulary_size) + " on " +
                    std::to_string(lines.size()) + " lines: " + FirstLine(status));
  }
  return FromBytes(std::move(bytes), "the trained vocabulary");
}

SentencePieces SentencePieces::FromBytes(std::string bytes, std::string_view name) {
  auto processor = std::make_unique<Processor>();
  const auto status = processor->pieces.LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw DataError(std::string(name) + ": is no SentencePiece model (" + FirstLine(status) + ")");
  }
  return SentencePieces(std::move(bytes), std::move(processor));
}

SentencePieces SentencePieces::FromFile(const std::filesystem::path& path) {
  return FromBytes(ReadFile(path, kMaxModelBytes), path.string());
}

std::vector<int32_t> SentencePieces::Encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = processor_->pieces.Encode(text, &ids);
  if (!status.ok()) throw DataError("encoding text: " + FirstLine(status));
  return {ids.begin(), ids.end()};
}

std::string SentencePieces::Decode(std::span<const int32_t> ids) const {
  std::vector<int> known(ids.begin(), ids.end());
  for (int& id : known) id = id >= 0 && id < size() ? id : unknown_id();
  std::string text;
  const auto status = processor_->pieces.Decode(known, &text);
  if (!status.ok()) throw DataError("decoding ids: " + FirstLine(status));
  return text;
}

int32_t SentencePieces::size() const { return processor_->pieces.GetPieceSize(); }
int32_t SentencePieces::unknown_id() const { return processor_->pieces.unk_id(); }
int32_t SentencePieces::end_id() const { return processor_->pieces.eos_id(); }

std::string StreamDecoder::Add(int32_t id) {
  ids_.push_back(id);
  const std::span<const int32_t> all(ids_);
  const std::string before = pieces_.Decode(all.subspan(context_, said_ - context_));
  const std::string after = pieces_.Decode(all.subspan(context_));
  // A character whose bytes are spelled one by one is complete only with its last byte.
  if (after.size() <= before.size() || after.ends_with("\xEF\xBF\xBD")) return {};
  // The window starts at a piece with text: SentencePiece drops the first space of what it decodes.
  if (!pieces_.Decode(all.subspan(said_)).empty()) context_ = said_;
  said_ = ids_.size();
  return after.substr(before.size());
}

}  // namespace teller::text
