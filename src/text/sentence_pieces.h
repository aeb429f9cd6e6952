#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace teller::text {

/// How a vocabulary is trained. Training is deterministic: same lines and options, same bytes.
struct TrainOptions {
  int vocabulary_size = 512;              ///< an upper limit where the lines have fewer pieces
  std::vector<std::string> user_symbols;  ///< kept whole always, for example '<num>'
  bool byte_fallback = false;             ///< spell unknown characters as bytes (adds 256 pieces)
};

/// A SentencePiece vocabulary (BPE, no normalisation): text to ids and back. Const calls may come
/// from any thread.
class SentencePieces {
 public:
  /// Trains on `lines`. Throws DataError where they are too few for the smallest vocabulary.
  static SentencePieces Train(std::span<const std::string> lines, const TrainOptions& options);
  /// Throws DataError where `bytes` are no SentencePiece model; `name` stands in the message.
  static SentencePieces FromBytes(std::string bytes, std::string_view name);
  static SentencePieces FromFile(const std::filesystem::path& path);
  ~SentencePieces();
  SentencePieces(SentencePieces&&) noexcept;

  std::vector<int32_t> Encode(std::string_view text) const;
  /// Ids outside the vocabulary are written as the unknown piece.
  std::string Decode(std::span<const int32_t> ids) const;
  int32_t size() const;
  int32_t unknown_id() const;
  int32_t end_id() const;  ///< of the end of a sequence; -1: none
  /// The model, as FromBytes takes it.
  const std::string& bytes() const { return bytes_; }

 private:
  struct Processor;
  SentencePieces(std::string bytes, std::unique_ptr<Processor> processor);

  std::string bytes_;
  std::unique_ptr<Processor> processor_;
};

/// Turns a growing list of ids into text, piece by piece, as a stream needs it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const SentencePieces& pieces) : pieces_(pieces) {}
  /// The text that `id` adds. Concatenated answers equal Decode of all ids.
  std::string Add(int32_t id);

 private:
  const SentencePieces& pieces_;
  std::vector<int32_t> ids_;
  std::size_t context_ = 0;  ///< first id of the window that is decoded again
  std::size_t said_ = 0;     ///< ids whose text was answered
};

}  // namespace teller::text
